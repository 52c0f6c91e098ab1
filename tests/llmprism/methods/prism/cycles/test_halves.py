"""Parts of two volumes in turn are halves of steps, unless one of both is an evaluation more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.halves import ends_of_pairs

STEPS = 5
LAYER, HEAD = 100, 400  # bytes


def traffic_of(halves: tuple[list[int], list[int]]) -> tuple[Traffic, Division]:
    """Messages of the sizes in both halves, ``STEPS`` times, and the halves as parts."""
    parts = [np.array(half) for _ in range(STEPS) for half in halves]
    size, records = np.concatenate(parts), [part.size for part in parts]
    start = np.arange(size.size) * 1000
    one = np.zeros(size.size, np.int32)
    traffic = Traffic(np.arange(size.size), start, start + 900, size, one, np.ones_like(one, bool))
    volumes = np.array([float(part.sum()) for part in parts])
    return traffic, Division(np.cumsum(records)[:-1], volumes, 0.25, 0.75, 0.75, 1.5)


FORWARD, BACKWARD = [LAYER] * 4 + [HEAD], [HEAD] + [LAYER] * 8


def test_two_volumes_in_turn_are_halves_of_steps():
    traffic, parts = traffic_of((FORWARD, BACKWARD))
    ends = ends_of_pairs(traffic, parts)
    records = len(FORWARD) + len(BACKWARD)
    assert ends.tolist() == [records * step for step in range(1, STEPS)]


def test_an_evaluation_after_every_second_step_makes_no_halves():
    step = [LAYER] * 12 + [HEAD] * 3
    evaluation = [LAYER] * 8 + [HEAD] * 2
    traffic, parts = traffic_of((step, step + evaluation))
    assert ends_of_pairs(traffic, parts).size == 0


def test_parts_that_lost_records_take_no_turns():
    traffic, parts = traffic_of((FORWARD, BACKWARD))
    volumes = parts.volumes.copy()
    volumes[3] -= LAYER
    assert ends_of_pairs(traffic, replace(parts, volumes=volumes)).size == 0


def test_equal_parts_are_no_halves():
    traffic, parts = traffic_of((FORWARD, FORWARD))
    assert ends_of_pairs(traffic, parts).size == 0

"""Ranks that wait for nobody between micro-batches begin ever further apart."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from equal_parts import parts_of
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.steps.coarser import are_pieces
from llmprism.methods.prism.steps.drift import CHANCE, chance_of_trend
from llmprism.methods.prism.steps.proposals import Proposals

STEPS, RANKS, PART_NS = 8, 4, 10_000_000
MESSAGE_NS, MESSAGES, BYTES = 1_000_000, 8, 1000


def traffic_of(late_ns: np.ndarray, rests_ns: np.ndarray) -> Traffic:
    """Gradients of ``RANKS`` in parts; ``late_ns`` of each part and rank, and a rest after each.

    Every message of a rank ends when the next one may begin.
    """
    begins = np.concatenate(([0], np.cumsum(PART_NS + rests_ns)[:-1]))
    message = np.arange(MESSAGES) * MESSAGE_NS
    start = begins[:, None, None] + message[None, :, None] + np.zeros(RANKS)
    start[:, 0] += late_ns
    end = np.broadcast_to(begins[:, None, None] + message[None, :, None] + MESSAGE_NS, start.shape)
    couple = np.broadcast_to(np.arange(RANKS), start.shape)
    order = np.argsort(start.ravel(), kind="stable")
    start, end, couple = (
        np.asarray(one).ravel()[order].astype(np.int64) for one in (start, end, couple)
    )
    size = np.full(start.size, BYTES)
    return Traffic(np.arange(start.size), start, end, size, couple, np.ones(start.size, np.bool_))


def late(every: int, grow: bool, seed: int) -> np.ndarray:
    """How late ranks are in each part: independently, or more from part to part."""
    own = np.random.default_rng(seed).normal(0, 20_000, (STEPS, every, RANKS))
    delays = np.cumsum(own + np.arange(RANKS) * 20_000, axis=1) if grow else own
    return np.asarray((delays - delays.min()).reshape(STEPS * every, RANKS))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("every", [2, 3, 4])
@pytest.mark.parametrize("grow", [True, False])
def test_ranks_drift_apart_until_a_step_ends(every, grow, seed):
    traffic = traffic_of(late(every, grow, seed), np.full(STEPS * every, 2_000_000))
    fine, coarse = parts_of(traffic, STEPS * every), parts_of(traffic, STEPS)
    assert (chance_of_trend(traffic, fine, coarse) <= CHANCE) == grow


@pytest.mark.parametrize("grow", [True, False])
def test_long_silences_end_steps_of_ranks_that_drift_apart(grow):
    """Every third silence is four times as long: an update with a forward pass, or a pause."""
    every = 3
    rests = np.where(np.arange(STEPS * every) % every == every - 1, 8_000_000, 2_000_000)
    traffic = traffic_of(late(every, grow, 0), rests)
    fine = parts_of(traffic, STEPS * every)
    coarse = replace(parts_of(traffic, STEPS), clarity=4.0)
    classes: Any = (SimpleNamespace(traffic=traffic, connections=np.zeros(RANKS), bytes=1.0),)
    assert are_pieces(Proposals(classes, [[fine, coarse]]), STEPS * every, STEPS) == grow

"""Gathers in one direction of a ring, and reductions in the other one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.layout.directions import gather_one_way
from llmprism.methods.prism.records.traffic import Traffic

PERIOD, STEPS = 1000, 5
FORWARD, BACKWARD = {"begin": 0, "end": 700}, {"begin": 300, "end": 950}


def shards(*rings: dict[str, Any], members: int = 4) -> bool:
    """Rings that move ``bytes`` from ``begin`` to ``end`` [ns] of each step, every other one back.

    Each ring is a class of its own.
    """
    src, dst, classes, of_row, total = [], [], [], [], []
    rank = np.arange(members)
    for i, ring in enumerate(rings):
        there, back = rank, (rank + 1) % members
        src.append(there if i % 2 == 0 else back)
        dst.append(back if i % 2 == 0 else there)
        step = np.tile(np.repeat(np.arange(STEPS), 2), members)  # a record at the begin, one later
        own = np.repeat(rank + i * members, 2 * STEPS)
        start = step * PERIOD + np.tile([ring["begin"], ring["end"] - 50], members * STEPS)
        row = np.arange(step.size) + sum(one.size for one in of_row)
        size = np.full(step.size, ring.get("bytes", 1000) // 2)
        traffic = Traffic(row, start, start + 50, size, own, np.ones(step.size, np.bool_))
        one = TrafficClass(rank + i * members, False, traffic)
        classes.append(KindOf(one, "dp", 1.0, step))
        of_row.append(own)
        total.append(np.full(members, ring.get("bytes", 1000) * STEPS))
    connections: Any = SimpleNamespace(
        src=np.concatenate(src), dst=np.concatenate(dst), of_row=np.concatenate(of_row),
        total_bytes=np.concatenate(total),
    )  # fmt: skip
    return gather_one_way(connections, classes, STEPS)


def test_gathers_in_both_passes_against_reductions_in_the_second_one_are_of_shards() -> None:
    assert shards(FORWARD, BACKWARD)
    assert shards(BACKWARD, FORWARD)


@pytest.mark.parametrize("late", [0, 50])
def test_an_all_reduce_in_both_directions_is_one_collective(late: int) -> None:
    assert not shards(BACKWARD, {"begin": 300 + late, "end": 950})


def test_gathers_after_the_reduction_are_of_no_sharded_parameters() -> None:
    assert not shards({"begin": 300, "end": 600}, {"begin": 650, "end": 900})


def test_a_ring_in_one_direction_and_two_members_show_nothing() -> None:
    assert not shards(BACKWARD)
    assert not shards(FORWARD, BACKWARD, members=2)

"""Messages that count to a neighbouring step belong to the one that lacks them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.phases.own_steps import with_own_steps

STEPS, PARTS, BYTES = 8, 6, 1000
FIRST = np.array([0])


class Ring:
    """Two hops that move equal parts, those of one connection after those of the other."""

    connections = np.array([0, 1])

    def __init__(self, by_step: list[list[int]]) -> None:
        self.sizes = np.concatenate([np.array(own) for own in (*by_step, *by_step)])
        self.step = np.repeat(np.tile(np.arange(STEPS), 2), [len(own) for own in by_step * 2])
        start = np.tile(np.arange(self.sizes.size // 2), 2)
        self.traffic = SimpleNamespace(size=self.sizes, start_ns=start)

    def cells(self, _connections: Any, step: Any, count: int) -> Any:
        known = np.flatnonzero(step >= 0)
        return known, (np.arange(step.size) >= step.size // 2)[known] * count + step[known]

    def volumes(self, connections: Any, step: Any, count: int) -> Any:
        known, cell = self.cells(connections, step, count)
        return np.bincount(cell, self.sizes[known], 2 * count).reshape(2, count)


def own_steps(by_step: list[list[int]], kind: str = "dp") -> list[int]:
    ring: Any = Ring(by_step)
    one = KindOf(ring, kind, 1.0, ring.step)
    none: Any = None
    return list(with_own_steps(none, one, STEPS, FIRST).step)


def test_the_first_parts_of_the_next_steps_are_theirs_while_a_rank_is_late():
    """From step 2 to step 4, the longest silence is after the first part of the next one."""
    parts = [PARTS, PARTS, PARTS + 1, PARTS, PARTS, PARTS - 1, PARTS, PARTS]
    found = own_steps([[BYTES] * own for own in parts])
    assert found == np.tile(np.repeat(np.arange(STEPS), PARTS), 2).tolist()


def test_parts_that_records_join_differently_count_by_their_bytes():
    whole = [[BYTES] * PARTS] * (STEPS - 2)
    joined = [[3 * BYTES, 3 * BYTES, BYTES], [5 * BYTES]]
    found = own_steps([*whole[:3], *joined, *whole[3:]])
    first = np.repeat(np.arange(STEPS), [6, 6, 6, 2, 2, 6, 6, 6])
    assert found == np.tile(first, 2).tolist()


@pytest.mark.parametrize("kind", ["ep", "pp"])
def test_only_gradients_move_as_much_in_every_step(kind):
    parts = [PARTS, PARTS, PARTS + 1, PARTS - 1, PARTS, PARTS, PARTS, PARTS]
    found = own_steps([[BYTES] * own for own in parts], kind)
    assert found == np.tile(np.repeat(np.arange(STEPS), parts), 2).tolist()


def test_records_that_are_lost_move_nothing():
    parts = [PARTS, PARTS, PARTS - 1, PARTS, PARTS - 1, PARTS, PARTS, PARTS]
    found = own_steps([[BYTES] * own for own in parts])
    assert found == np.tile(np.repeat(np.arange(STEPS), parts), 2).tolist()

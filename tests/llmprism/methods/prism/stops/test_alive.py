"""Which end of a message that never came is alive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.stops.alive import alive_or, in_lockstep

SENDER, GOAL, OTHER = 0, 1, 2
READY_NS, NEXT_NS = 10, 10_000


def named(*later: tuple[int, int, int, int], joins: bool = False, worked_on: bool = False) -> int:
    """``later`` are records (sender, receiver, begin, end) [ns]; the first may be one of a
    collective.
    """
    src, dst, start, end = np.array(later, np.int64).reshape(-1, 4).T
    flows: Any = SimpleNamespace(src=src, dst=dst, start_ns=start, end_ns=end)
    tail: Any = SimpleNamespace(next_ns=NEXT_NS, rows={"dp": np.arange(int(joins))})
    ready_ns = {SENDER: READY_NS}
    context: Any = SimpleNamespace(flows=flows)
    return alive_or(context, tail, SENDER, [GOAL], ready_ns, lambda: worked_on)


def test_a_rank_that_joins_a_collective_later_does_not_hang() -> None:
    """It lacks no input, but what it sends goes through a silent NIC."""
    assert named((OTHER, SENDER, 50, 60), joins=True) == GOAL
    assert named((OTHER, SENDER, 0, 60), joins=True) == SENDER


def test_a_receiver_that_carries_anything_later_is_not_silent() -> None:
    assert named((SENDER, OTHER, 50, 60)) == GOAL
    assert named((SENDER, OTHER, 50, 60), (OTHER, GOAL, 70, 80)) == SENDER


def test_what_waited_for_a_silent_nic_does_not_show_that_it_is_alive() -> None:
    assert named((SENDER, OTHER, 50, 60), (OTHER, GOAL, 70, NEXT_NS - 1)) == GOAL


def test_a_rank_whose_group_worked_on_does_not_hang_if_its_nic_is_alive() -> None:
    assert named((OTHER, SENDER, 50, 60), worked_on=True) == GOAL
    assert named((OTHER, SENDER, 50, 60)) == SENDER
    assert named(worked_on=True) == SENDER  # its own NIC may be the silent one


@pytest.mark.parametrize(
    ("apart_ns", "tick_ns", "together"), [(1, 1, True), (5, 1, False), (0, 100, False)]
)
def test_ranks_in_lockstep_send_at_the_same_moments(apart_ns, tick_ns, together) -> None:
    one_ns = np.arange(0, 20_000, 1_000)
    assert in_lockstep(one_ns, one_ns + apart_ns, tick_ns) is together

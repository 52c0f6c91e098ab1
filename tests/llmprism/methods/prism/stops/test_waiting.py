"""Transfers that waited until a job went on: which of their ends was silent."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.stops.waiting import stuck_on_the_wire

JOB = SimpleNamespace(period_ns=100)
FIRST, SECOND, OTHER = 0, 1, 2
MANY_NS = 10_000


def stuck(*records: tuple[int, int, int, int]):
    """``records`` are (sender, receiver, begin, end) [ns]; those that end late had waited."""
    src, dst, start, end = np.array(records, np.int64).T
    flows = SimpleNamespace(src=src, dst=dst, start_ns=start, end_ns=end, addresses=["a"] * 3)
    waiting = np.flatnonzero(end >= MANY_NS)
    return stuck_on_the_wire(SimpleNamespace(flows=flows), JOB, SimpleNamespace(waiting=waiting))


@pytest.mark.parametrize(("silent", "alive"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_of_two_ends_the_one_that_carried_nothing_for_longer_is_named(silent, alive):
    found = stuck(
        (FIRST, SECOND, 0, 10),
        (alive, OTHER, 60, 80),
        (FIRST, SECOND, 90, MANY_NS),
    )
    assert (found.endpoint, found.others) == (silent, (alive,))


def test_of_two_ends_that_were_silent_for_as_long_the_receiver_is_named():
    found = stuck((FIRST, SECOND, 0, 10), (FIRST, SECOND, 20, MANY_NS))
    assert (found.endpoint, found.others) == (SECOND, (FIRST,))


def test_the_end_of_most_transfers_is_named():
    found = stuck((FIRST, SECOND, 0, MANY_NS), (OTHER, FIRST, 0, MANY_NS))
    assert found.endpoint == FIRST


def test_a_nic_that_is_back_shortly_before_the_transfers_end_was_silent():
    """What waited for the second end comes first; meanwhile the first one sent something else."""
    found = stuck(
        (FIRST, SECOND, 0, MANY_NS),
        (FIRST, OTHER, 1_000, 1_100),
        (OTHER, SECOND, 2_000, MANY_NS - 1),
        (OTHER, SECOND, MANY_NS - 100, MANY_NS - 50),
    )
    assert (found.endpoint, found.others) == (SECOND, ())


def test_other_traffic_that_waits_for_one_of_two_ends_tells_them_apart():
    found = stuck((FIRST, SECOND, 0, MANY_NS), (OTHER, FIRST, 2_000, MANY_NS - 1))
    assert (found.endpoint, found.others) == (FIRST, (SECOND,))

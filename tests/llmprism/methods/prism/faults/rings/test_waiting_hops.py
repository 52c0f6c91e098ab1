"""Which server the hops of a ring wait for, by how much longer they are on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.rings.waiting_hops import _waits

UNKNOWN = np.nan


def waited_for(
    lost_ns: list[float], records: list[float] | None = None
) -> tuple[list[int], list[int], float]:
    """The servers that are late as a whole, the hops that are late alone, and for how long.

    Each hop has its usual number of ``records``, or so many times as many.
    """
    number = np.array(records or [1.0] * len(lost_ns))
    whole, alone, waited_ns = _waits(np.array(lost_ns, float)[:, None], number[:, None])
    return np.flatnonzero(whole).tolist(), np.flatnonzero(alone).tolist(), float(waited_ns[0])


@pytest.mark.parametrize("server", range(6))
def test_both_hops_of_a_late_server_do_not_wait(server):
    """Hop i leads from server i to the next one."""
    lost_ns = np.roll([0.0, 90.0, 100.0, 95.0, 92.0, 3.0], server).tolist()
    assert waited_for(lost_ns) == ([server], [], 100.0)


@pytest.mark.parametrize("hop", range(4))
def test_one_hop_alone_leads_from_or_to_the_late_rank(hop):
    assert waited_for(np.roll([1.0, 100.0, 96.0, 90.0], hop).tolist()) == ([], [hop], 100.0)


@pytest.mark.parametrize(
    "lost_ns",
    [
        [100.0, 98.0, 97.0, 99.0],  # all wait: for a rank in the middle of a server
        [100.0, 0.0, 0.0, 0.0],  # a slow hop
        [100.0, 0.0, 0.0],  # and one of three servers
        [100.0, 0.0, 98.0, 0.0],  # two that are not of one server
        [-1.0, -2.0, 0.0, -3.0],  # nobody waits
        [0.0, 90.0, UNKNOWN, 95.0],
    ],
)
def test_other_hops_show_nobody_who_is_late(lost_ns):
    whole, alone, _ = waited_for(lost_ns)
    assert (whole, alone) == ([], [])


@pytest.mark.parametrize(
    ("records", "late"),
    [
        ([3.0, 1.0, 1.0, 2.5], []),  # they rest for the hops that are slow, and send all the time
        ([3.0, 3.0, 3.5, 3.0], [0]),  # all rest: records end in shorter silences
        ([1.0, 2.0, 2.0, 1.0], [0]),  # the others rest
    ],
)
def test_a_hop_that_rests_more_often_than_slow_ones_waits_itself(records, late):
    """A leaf with one server of four is slow: what it sends and receives is longer."""
    assert waited_for([0.0, 90.0, 100.0, 1.0], records)[0] == late

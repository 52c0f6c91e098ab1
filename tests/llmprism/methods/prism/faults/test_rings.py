"""How long a ring waits for a server, and what its hops lack in a step."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.ring_bursts import Hops
from llmprism.methods.prism.faults.rings import Ring, _late_in, _left_out

HOPS, STEPS = 6, 28


@pytest.mark.parametrize("seed", range(20))
def test_bytes_that_vary_because_telemetry_samples_are_no_lack(seed: int) -> None:
    total = 7e8 * (1 + 0.03 * np.random.default_rng(seed).standard_normal((HOPS, STEPS)))
    assert (_left_out(total) > 0).mean() < 0.05


def test_what_a_hop_sent_too_little_of_to_be_taken_for_data_is_lacking() -> None:
    total = np.full((HOPS, STEPS), 7e8)
    total[2, 9::2] -= 1e7  # in every second step, as by a rank that pauses
    lacking = _left_out(total)
    assert (lacking[2, 9::2] == 1e7).all()
    assert lacking.sum() == lacking[2, 9::2].sum()


@pytest.mark.parametrize("servers", [3, 4, 5, 8])
def test_a_server_that_is_late_delays_its_ring_by_all_of_that(servers: int) -> None:
    """The hops to and from it are two: most of the hops of a short ring, few of a long one."""
    begin = np.full((servers, 1), 10.0)
    begin[[0, 1]] = 50.0  # into server 1, and out of it
    begin[0] += 1.0  # its ranks arrive one after the other
    size = np.full((servers, 1), 100.0)
    sent = np.where(begin < 50, 5.0, 100.0)
    again = np.where(begin < 50, 51.0, np.nan)
    hops = Hops(begin, begin + sent, again, sent, size)
    ring = Ring(np.arange(servers), np.arange(servers))
    late = _late_in(ring, hops, 4, np.zeros(1))
    assert late.delay_ns.tolist() == [41.0]
    assert late.server.tolist() == [1]
    assert late.whole.all()

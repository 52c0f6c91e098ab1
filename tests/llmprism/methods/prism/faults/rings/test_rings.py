"""How long a ring waits for a server, and what its hops lack in a step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.bursts import Bursts
from llmprism.methods.prism.faults.rings.ring_bursts import Hops
from llmprism.methods.prism.faults.rings.ring_rests import sent_until_longest_rest
from llmprism.methods.prism.faults.rings.rings import Late, Ring, _late_in, _left_out, _with_later

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


def test_what_hops_sent_until_their_ring_rests_for_longest() -> None:
    """A hop alone may be silent for longer, and other steps do not matter."""
    job: Any = SimpleNamespace(count=3)
    rows = [  # hop, step, begin, end, bytes
        (0, 0, 0, 9, 50),
        (0, 1, 0, 2, 5), (0, 1, 30, 32, 6), (0, 1, 50, 60, 7),
        (1, 0, 0, 9, 50),
        (1, 1, 0, 2, 5), (1, 1, 10, 12, 1), (1, 1, 20, 22, 1), (1, 1, 50, 60, 11),
    ]  # fmt: skip
    place, step, begin, end, size = np.array(rows, np.int64).T
    bursts = Bursts(place, np.arange(place.size), step, begin, end, size)
    sent = sent_until_longest_rest(job, np.array([1, 0]), bursts, np.array([1]))
    np.testing.assert_array_equal(sent, [[np.nan, 7.0, np.nan], [np.nan, 11.0, np.nan]])


@pytest.mark.parametrize(("behind", "server"), [((1, 5, 9, 13), 12), ((0, 3, 7, 11), 13)])
def test_a_rank_that_is_late_in_the_middle_of_a_step_is_in_a_known_server(behind, server) -> None:
    """Of four ranks a server: the hop that sent least leaves its server, or leads to it."""
    rows = np.roll(1000 + 4.0 * np.array(behind), 2)
    sent = np.stack((rows, np.full(4, np.nan), np.full(4, 1000.0)), axis=1)
    none = np.zeros(3)
    early = Late(none + 0.1, none + 0.1, none.astype(int), none > 0, none, none.astype(int) - 1)
    ring = Ring(np.arange(4), np.array([10, 11, 12, 13]))
    found = _with_later(early, ring, sent, 4, none + 30.0)
    assert found.delay_ns.tolist() == [30.0, 0.1, 0.1]
    assert found.server.tolist() == [server, 0, 0]
    assert np.isnan(found.share).tolist() == [True, False, False]

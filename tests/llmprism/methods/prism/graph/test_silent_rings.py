"""A ring computed chunk by chunk: what its hops send before they are silent names who is late."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.graph.silent_rings import Homes, Late, hops_in_order, late_ranks
from llmprism.methods.prism.graph.slots import Silences

CHUNK_NS, CHUNK_BYTES, DELAY_NS = 1.0, 1_000.0, 500.0


def sends(ranks: int, joins: np.ndarray) -> np.ndarray:
    """When each rank begins to send each chunk of a reduce-scatter, shape (ranks, chunks).

    It sends a chunk when both ends have joined, and the chunk has come, and the last one is sent.
    """
    begin = np.zeros((ranks, ranks - 1))
    for chunk in range(ranks - 1):
        for rank in range(ranks):
            ready = max(joins[rank], joins[(rank + 1) % ranks])
            if chunk:
                ready = max(begin[rank, chunk - 1], begin[rank - 1, chunk - 1]) + CHUNK_NS
            begin[rank, chunk] = ready
    return begin


def who_is_late(servers: int, of_a_server: int, joins: np.ndarray) -> Late:
    """What the visible hops of a ring through ``servers`` show; the last rank of each one sends."""
    begin = sends(servers * of_a_server, joins)[of_a_server - 1 :: of_a_server]
    gaps = np.diff(begin, axis=1) - CHUNK_NS
    longest = gaps.argmax(axis=1)
    at = np.arange(servers)
    rests = gaps[at, longest] > 0.5 * DELAY_NS
    since = np.where(rests, begin[at, longest] + CHUNK_NS, np.nan)
    until = np.where(rests, begin[at, longest + 1], np.nan)
    sent = np.where(rests, (longest + 1) * CHUNK_BYTES, np.nan)
    rest = np.where(rests, until - since, 0.0)
    shape = (servers, 1, 1)
    silences = Silences(*(part.reshape(shape) for part in (since, until, sent, rest)))
    ranks = np.arange(servers * of_a_server)
    homes = Homes(ranks // of_a_server, np.zeros_like(ranks), ranks)
    last = (at + 1) * of_a_server - 1
    ends = last, (last + 1) % ranks.size
    return late_ranks(homes, ends, begin[:, 0].reshape(shape), silences)


@pytest.mark.parametrize(("servers", "of_a_server"), [(3, 2), (4, 4), (5, 3), (8, 8)])
def test_any_late_rank_of_a_ring_is_named(servers: int, of_a_server: int) -> None:
    for rank in range(servers * of_a_server):
        joins = np.zeros(servers * of_a_server)
        joins[rank] = DELAY_NS
        late = who_is_late(servers, of_a_server, joins)
        assert late.rank.tolist() == [rank]
        assert late.until_ns == pytest.approx(DELAY_NS, abs=servers * of_a_server * CHUNK_NS)


@pytest.mark.parametrize("server", range(4))
def test_all_ranks_of_a_late_server_are_named(server: int) -> None:
    joins = np.repeat(DELAY_NS * (np.arange(4) == server), 4)
    late = who_is_late(4, 4, joins)
    assert sorted(late.rank.tolist()) == [*range(4 * server, 4 * server + 4)]


@pytest.mark.parametrize("rank", [3, 4])
def test_between_two_servers_either_end_of_the_late_hop_is_named(rank: int) -> None:
    joins = DELAY_NS * (np.arange(8) == rank)
    assert sorted(who_is_late(2, 4, joins).rank.tolist()) == [3, 4]


@pytest.mark.parametrize("rank", [0, 1, 5, 6])
def test_a_rank_inside_one_of_two_servers_is_named(rank: int) -> None:
    late = who_is_late(2, 4, DELAY_NS * (np.arange(8) == rank))
    assert rank in late.rank.tolist()
    assert late.rank.size <= 2


def test_hops_that_are_no_ring_have_no_order() -> None:
    assert hops_in_order(np.array([0, 1, 2]), np.array([1, 2, 3])).size == 0
    assert hops_in_order(np.array([0, 1, 2, 3]), np.array([1, 0, 3, 2])).size == 0

"""The rank that never joined a collective is found from what the hops between servers sent."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from llmprism.methods.prism.stops.absences import missing_from


def chunks_between_servers(servers: int, ranks: int, missing: int) -> list[float]:
    """Chunks that leave each server of a ring that one rank never joins, by its own rule.

    A hop sends one chunk when both ends are there, and each other one when one has come.
    """
    count = servers * ranks
    sent = np.zeros(count, np.int64)
    for _ in range(2 * count):
        for hop in range(count):
            there = missing not in (hop, (hop + 1) % count)
            if there and sent[hop] <= sent[hop - 1] and sent[hop] < 2 * (count - 1):
                sent[hop] += 1
    return sent[ranks - 1 :: ranks].astype(float).tolist()  # the last rank of a server sends out


CASES = [
    (servers, ranks, missing)
    for servers, ranks in ((4, 1), (16, 1), (3, 2), (8, 2), (4, 4))
    for missing in range(servers * ranks)
]


@pytest.mark.parametrize(("servers", "ranks", "missing"), CASES)
def test_the_missing_rank_is_the_likeliest(servers: int, ranks: int, missing: int) -> None:
    sent = 1e6 * np.array(chunks_between_servers(servers, ranks, missing))
    first = missing_from(sent, [1, ranks])[0]
    rank = missing % ranks if ranks > 1 else None
    assert (first.place, first.rank) == (missing // ranks, rank)
    assert first.differs < 1e-9


@pytest.mark.parametrize(("servers", "missing"), [*itertools.product((4, 8), range(4))])
def test_a_chunk_that_is_sampled_badly_hides_no_missing_rank(servers: int, missing: int) -> None:
    sent = 1e6 * np.array(chunks_between_servers(servers, 1, missing))
    noise = np.random.default_rng(missing).normal(1, 0.1, sent.size)
    assert missing_from(sent * noise, [1])[0].place == missing


def test_of_two_servers_both_ranks_that_explain_one_hop_are_named() -> None:
    """The last rank of one server or the first one of the other: only one hop sent anything."""
    sent = np.array(chunks_between_servers(2, 2, 1))
    likely = {(one.place, one.rank) for one in missing_from(sent, [1, 2]) if one.differs < 1e-9}
    assert likely == {(0, 1), (1, 0)}

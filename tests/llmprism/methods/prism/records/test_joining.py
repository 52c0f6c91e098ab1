"""Which pairs join, by their volumes alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.records.joining import joining_pairs

RANKS = 8  # of each of two groups; endpoints of 16 on are further hosts


def joined(*pairs: tuple[int, int, float], per_server: int = 1) -> list[bool]:
    """Whether each of ``pairs`` joins, beside the gradients of two rings."""
    rings = [
        (group + i, group + (i + 1) % RANKS, 1e12) for group in (0, RANKS) for i in range(RANKS)
    ]
    src, dst, size = (np.array(column) for column in zip(*rings, *pairs, strict=True))
    volumes = SimpleNamespace(src=src, dst=dst, bytes=size.astype(float))
    found = joining_pairs(volumes, SimpleNamespace(servers=np.arange(32) // per_server))
    assert found[: len(rings)].all()
    return list(found[len(rings) :])


def test_minor_activations_between_the_ranks_of_two_stages_join_them():
    assert all(joined(*((i, RANKS + i, 1e9) for i in range(RANKS))))


def test_a_part_of_the_ranks_may_be_missing():
    assert all(joined(*((i, RANKS + i, 1e9) for i in range(5))))
    assert not any(joined(*((i, RANKS + i, 1e9) for i in range(3))))


def test_services_between_any_two_ranks_join_nothing():
    draw = np.random.default_rng(0)
    few = [
        (int(a), RANKS + int(b), 1e8 * draw.lognormal(0, 2))
        for a, b in draw.integers(RANKS, size=(12, 2))
    ]
    assert not any(joined(*few))
    assert not any(joined(*((i, RANKS + j, 1e8) for i in range(RANKS) for j in range(RANKS))))


@pytest.mark.parametrize("service", [1e5, 1e9])
def test_a_service_joins_no_ranks_and_idle_hosts_each_other(service):
    found = joined(*((i, 16, service) for i in range(16)), (17, 16, service))
    assert found == [False] * 16 + [True]


def test_a_nic_without_training_joins_no_servers():
    idle_nics = [(1, 17, 1e5), (17, 1, 1e5)]  # servers 0 and 8 have two NICs
    assert joined(*idle_nics, per_server=2) == [False, False]


def test_much_traffic_joins():
    assert joined((0, RANKS, 5e10)) == [True]

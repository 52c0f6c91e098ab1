"""Kinds that volumes alone show, and the shapes of which nothing may be claimed."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.records.shapes import lines_of


def kinds(volumes):
    """Kinds for {(sender, receiver): bytes}, without acknowledgements and services; the lines."""
    pairs = list(volumes)
    src, dst = np.array(pairs, np.int32).T
    connections = SimpleNamespace(
        src=src, dst=dst, total_bytes=np.array([volumes[pair] for pair in pairs], np.int64),
        carries=np.ones(len(pairs), np.bool_),
    )  # fmt: skip
    found = lines_of(connections, np.unique(np.concatenate((src, dst))))
    return {pair: kind for line in found for pair, kind in line.kinds().items()}, found


def ring(*ends, volume=1000):
    return dict.fromkeys(pairwise([*ends, ends[0]]), volume)


def exchange(*pairs, volume=100):
    return {pair: volume for a, b in pairs for pair in ((a, b), (b, a))}


def stages(count, members=3):
    """Rings of ``members``, one a stage, and the pairs between neighbours."""
    ends = np.arange(count * members).reshape(count, members).tolist()
    rings = [ring(*own) for own in ends]
    joins = [exchange(*zip(a, b, strict=True)) for a, b in pairwise(ends)]
    return ends, {pair: own for part in (*rings, *joins) for pair, own in part.items()}


def test_a_ring_that_nothing_joins_is_data_parallel():
    shown, (line,) = kinds(ring(0, 1, 2, 3))
    assert shown == dict.fromkeys(ring(0, 1, 2, 3), "dp")
    assert sorted(line.rings[0]) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [3, 4])
def test_rings_in_a_line_are_the_stages_of_a_pipeline(count):
    _, volumes = stages(count)
    shown, (line,) = kinds(volumes)
    assert shown == {pair: "dp" if own == 1000 else "pp" for pair, own in volumes.items()}
    assert len(line.rings) == count
    assert sorted(len(own) for own in line.chains) == [count] * 3


@pytest.mark.parametrize(
    "volumes",
    [
        exchange((0, 1)),
        stages(2)[1],
        stages(3)[1] | exchange((0, 6), (1, 7), (2, 8)),
        ring(0, 1, 2) | {(1, 2): 500},
        ring(0, 1, 2) | exchange((0, 1), (1, 2), (2, 0), volume=1000),
        ring(0, 1, 2, 3) | ring(0, 2, 1, 3),
    ],
    ids=["two", "two rings", "tied ends", "unequal", "both ways", "two orders"],
)
def test_nothing_is_claimed_of_what_may_be_something_else(volumes):
    assert kinds(volumes) == ({}, [])


def test_a_few_bytes_beside_the_data_change_nothing():
    volumes = ring(0, 1, 2) | {(0, 2): 30, (2, 1): 5}
    assert kinds(volumes)[0] == dict.fromkeys(ring(0, 1, 2), "dp")

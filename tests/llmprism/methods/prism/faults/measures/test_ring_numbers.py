"""Connections of one ring that are in several classes are one group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures import collectives
from llmprism.methods.prism.faults.measures.last_ends import _families
from llmprism.methods.prism.faults.measures.rates import _groups

HOPS = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3)]


class Connections(SimpleNamespace):
    """Two rings of three NICs, each through the same servers, and a pipeline between them."""

    def __len__(self) -> int:
        return len(HOPS)


@pytest.fixture
def world(monkeypatch):
    """The hops between the first two servers are in one class, the others in another one."""
    parts = [
        SimpleNamespace(kind=kind, one=SimpleNamespace(connections=np.array(own)))
        for kind, own in (("dp", [0, 3]), ("dp", [1, 2, 4, 5]), ("pp", [6]))
    ]
    whole = SimpleNamespace(kind="dp", one=SimpleNamespace(connections=np.arange(6)))
    monkeypatch.setattr(collectives, "collectives_of", lambda *_: [whole])
    src, dst = np.array(HOPS).T
    topology = SimpleNamespace(servers=np.array([0, 1, 2, 0, 1, 2]))
    context: Any = SimpleNamespace(
        connections=Connections(src=src, dst=dst), topology=topology, measured={}
    )
    job: Any = SimpleNamespace(name="job-0", phases=SimpleNamespace(classes=parts))
    return context, job


def test_hops_of_a_ring_are_one_group_whatever_their_classes(world):
    first, second, pipeline = (_groups(*world, number) for number in range(3))
    assert [*first[:1], *second[:2]] == [first[0]] * 3
    assert [*first[1:], *second[2:]] == [first[1]] * 3
    assert first[0] != first[1]
    assert pipeline.tolist() == [-1]


def test_rings_with_the_same_hops_between_servers_are_one_family(world):
    family = _families(*world)
    assert (family[:6] == family[0]).all()
    assert family.tolist()[6] == -1

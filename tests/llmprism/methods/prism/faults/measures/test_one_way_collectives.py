"""Each direction of a ring is a collective of its own; other classes stay whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.faults.measures import collectives

RING = [(0, 1), (1, 2), (2, 0)]
BACK = [(b, a) for a, b in RING]
COUPLE = [(0, 1), (1, 0)]


def ways_of(hops, monkeypatch):
    """Hops and steps of the records of each part, of a class with a record of each hop and step."""
    src, dst = np.array(hops).T
    rows = np.arange(2 * src.size)
    times, couple = rows * 10, np.zeros(rows.size, np.int64)
    traffic = Traffic(rows, times, times + 5, np.ones_like(rows), couple, couple == 0)
    one = TrafficClass(np.arange(src.size), True, traffic)
    part = KindOf(one, "dp", 1.0, (rows >= src.size).astype(np.int32))
    monkeypatch.setattr(collectives, "collectives_of", lambda *_: [part])
    connections = SimpleNamespace(src=src, dst=dst, of_row=np.tile(np.arange(src.size), 2))
    context: Any = SimpleNamespace(connections=connections)
    job: Any = None
    found = []
    for way in collectives.one_way_collectives_of(context, job):
        own = connections.of_row[way.one.traffic.row]
        assert np.unique(own).tolist() == way.one.connections.tolist()
        found.append(sorted((hops[i], step) for i, step in zip(own, way.step, strict=True)))
    return found


def both_steps(hops):
    return sorted((hop, step) for hop in hops for step in (0, 1))


def test_directions_of_a_ring_are_two_collectives(monkeypatch):
    found = ways_of(RING + BACK, monkeypatch)
    assert sorted(found) == sorted([both_steps(RING), both_steps(BACK)])


@pytest.mark.parametrize("hops", [COUPLE, RING])
def test_what_is_no_ring_in_both_directions_stays_whole(hops, monkeypatch):
    assert ways_of(hops, monkeypatch) == [both_steps(hops)]

"""Rings whose hops sent different amounts when their job stopped."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from llmprism.methods.prism.faults import unfinished_rings
from llmprism.methods.prism.faults.unfinished_rings import BrokenRing, Usual, stuck_in_ring


def test_a_ring_of_two_servers_in_which_any_rank_may_be_missing_names_none(monkeypatch):
    usual = Usual([1e6], apart=0.0, ranks=(1,), waits_ns=np.zeros(3))
    members, sent = np.array([0, 1]), np.array([4e5, 0.0])
    ring = BrokenRing(members, sent, known=False, moved=4e5, begun_ns=0, usual=usual)
    monkeypatch.setattr(unfinished_rings, "_rings", lambda *_: iter([ring]))
    topology = SimpleNamespace(servers=members, endpoints=[SimpleNamespace(nic=0)] * 2)
    job = SimpleNamespace(phases=SimpleNamespace(endpoints=members), period_ns=1e6)
    tail = SimpleNamespace(rows={}, next_ns=int(1e9))
    assert stuck_in_ring(SimpleNamespace(topology=topology), job, tail) is None

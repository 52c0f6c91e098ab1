"""Rings whose hops sent different amounts when their job stopped."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.stops import unfinished_rings
from llmprism.methods.prism.stops.finished_rings import Usual, _after_all
from llmprism.methods.prism.stops.unfinished_rings import (
    BrokenRing,
    stuck_in_ring,
)


def test_a_ring_of_two_servers_in_which_any_rank_may_be_missing_names_none(monkeypatch):
    usual = Usual([1e6], apart=0.0, ranks=(1,), waits_ns=np.zeros(3))
    members, sent = np.array([0, 1]), np.array([4e5, 0.0])
    ring = BrokenRing(members, sent, known=False, moved=4e5, begun_ns=0, usual=usual)
    monkeypatch.setattr(unfinished_rings, "_rings", lambda *_: iter([ring]))
    topology = SimpleNamespace(servers=members, positions=np.zeros(2, np.int64))
    job = SimpleNamespace(phases=SimpleNamespace(endpoints=members, classes=[]), period_ns=1e6)
    tail = SimpleNamespace(rows={}, next_ns=int(1e9))
    assert stuck_in_ring(SimpleNamespace(topology=topology), job, tail) is None


@pytest.mark.parametrize(("finished", "alone"), [(4, False), (12, True)])
def test_a_few_steps_do_not_show_how_seldom_a_cut_looks_like_a_missing_rank(
    monkeypatch, finished, alone
):
    usual = Usual([4e6], apart=0.0, ranks=(1,), waits_ns=np.zeros(finished + 1))
    members, sent = np.arange(4), np.array([1e6, 2e6, 3e6, 0.0])
    ring = BrokenRing(members, sent, known=True, moved=0.0, begun_ns=0, usual=usual)
    monkeypatch.setattr(unfinished_rings, "_rings", lambda *_: iter([ring]))
    topology = SimpleNamespace(servers=members, positions=np.zeros(4, np.int64))
    job = SimpleNamespace(phases=SimpleNamespace(endpoints=members, classes=[]), period_ns=1e6)
    found = stuck_in_ring(
        SimpleNamespace(topology=topology), job, SimpleNamespace(rows={}, until_ns=5)
    )
    assert found is not None
    assert found.alone == alone


def test_a_collective_ends_where_all_hops_have_sent_as_much():
    """Two servers with four ranks each: seven chunks in each of two collectives.

    The hops wait for the ranks of the other server, one after four chunks and the other after one.
    """
    chunks = [np.array([4.0, 7.0, 11.0, 14.0]), np.array([1.0, 7.0, 8.0, 14.0])]
    assert _after_all(chunks) == [7.0, 14.0]
    assert _after_all([np.array([14.0]), np.array([13.99])]) == [14.0]

"""Who is named where some transfers are slow, or lose time on the wire."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.rates import Rates
from llmprism.methods.prism.faults.measures.series import judged

SLOW_NETWORK = importlib.import_module("llmprism.methods.prism.faults.causes.slow_network")
STEPS, FIRST, LAST = 24, 9, 16


@pytest.fixture
def accused(monkeypatch):
    """The suspects of a job whose steps are a fifth longer in a stretch.

    Of connections (source, destination, pace, time lost) in that stretch; the first are a ring.
    """

    def found(connections, ring=0, longer=0.2, last=LAST):
        stream = np.random.default_rng(0)
        shape = (len(connections), STEPS)
        pace, lost = 1 + stream.normal(0, 1e-3, shape), stream.normal(0, 1e-4, shape)
        for row, (_, _, slower, more) in enumerate(connections):
            pace[row, FIRST : last + 1] *= slower
            lost[row, FIRST : last + 1] += more
        rates = Rates(
            kind=["dp"] * len(connections),
            group=np.where(np.arange(len(connections)) < ring, 0, -1),
            conversation=np.arange(len(connections)),
            crosses=[frozenset({a, b, f"{a}>out", f"{b}>in"}) for a, b, _, _ in connections],
            pace=judged(pace, 0.1),
            busy=np.ones(shape),
            lost=lost,
            finest=np.zeros(len(connections)),
        )
        duration = 1e8 + stream.normal(0, 1e5, STEPS)
        duration[FIRST : last + 1] *= 1 + longer
        end = np.cumsum(duration)
        job = SimpleNamespace(
            name="job-0",
            count=STEPS,
            duration_ns=duration,
            start_ns=end - duration,
            end_ns=end,
            between_ends_ns=duration,
            tick_ns=0.0,
            period_ns=1e8,
            pipelines=SimpleNamespace(length=2),
        )
        monkeypatch.setattr(SLOW_NETWORK, "rates_of", lambda *_: rates)
        monkeypatch.setattr(SLOW_NETWORK, "_by_saving", lambda *_: False)
        names = {name for one in connections for name in one[:2]}
        ends = [SimpleNamespace(server="s0")]
        topology = SimpleNamespace(codes=dict.fromkeys(names, 0), endpoints=ends)
        flows = SimpleNamespace(optional={}, meta={})
        context = SimpleNamespace(jobs=[job], topology=topology, flows=flows)
        suspects = SLOW_NETWORK.slow_network(context)
        return [one for one in suspects if one.is_believed]

    return found


def test_both_ends_of_the_only_transfer_that_stalls_are_named(accused):
    """A stall hits what is under way: the other transfers of both NICs were not."""
    others = [("a", "c"), ("a", "d"), ("c", "b"), ("d", "b"), ("b", "a")]
    (one,) = accused([("a", "b", 1, 0.15), *((src, dst, 1, 0.0) for src, dst in others)])
    assert {*one.evidence["one_of"]} == {"a", "b"}
    assert (one.first, one.last) == (FIRST, LAST)
    assert one.confidence < 0.5


def test_of_hops_that_are_slow_alike_the_lost_time_shows_which_nic_it_is(accused):
    ring = [("a", "b", 3, 0.35), ("b", "c", 3, 0.36), ("c", "d", 3, 0.2), ("d", "a", 3, 0.2)]
    healthy = [("e", "f", 1, 0.0), ("f", "e", 1, 0.0), ("g", "h", 1, 0.0)]
    (one,) = accused([*ring, *healthy], ring=4)
    assert one.culprit == "b"
    assert not {"a", "d"} & {*one.evidence["one_of"]}


def test_time_that_is_too_little_for_the_longer_steps_accuses_nobody(accused):
    assert accused([("a", "b", 1, 0.02), ("b", "a", 1, 0.02), ("c", "d", 1, 0.0)]) == []


def test_time_that_costs_the_job_nothing_accuses_nobody(accused):
    slow = [("a", "b", 1, 0.2), ("b", "a", 1, 0.2), ("c", "d", 1, 0.0)]
    assert accused(slow)
    assert accused(slow, longer=0.0) == []


def test_a_receiver_is_named_first_where_one_direction_is_slow_alone(accused):
    ways = [("a", "b", 2, 0.2), ("b", "a", 1, 0.0), ("c", "d", 1, 0.0), ("d", "c", 1, 0.0)]
    (one,) = accused(ways)
    assert one.evidence["one_of"] == ["b", "a"]


@pytest.mark.parametrize(("last", "named"), [(FIRST + 1, 0), (LAST, 1)])
def test_slow_transfers_that_no_part_explains_are_reported_only_if_they_last(accused, last, named):
    """Healthy transfers that compete are slow in single steps."""
    slow = [("a", "b", 2, 0.1), ("c", "d", 2, 0.1), ("e", "f", 2, 0.1)]
    healthy = [("g", "h", 1, 0.0), ("h", "g", 1, 0.0), ("i", "g", 1, 0.0), ("h", "i", 1, 0.0)]
    assert len(accused([*slow, *healthy], last=last)) == named

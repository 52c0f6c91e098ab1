"""Time that a first stage loses before its first activation and after its last gradient."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np

OWN_TIME = importlib.import_module("llmprism.methods.prism.faults.lateness.own_time")
STEPS = 12


def test_a_first_stage_loses_what_its_last_backward_passes_take_longer(monkeypatch) -> None:
    """Two stages: the first one sends nothing after its backward passes."""
    edges = np.full((2, STEPS, 2), 100.0)
    edges[:, 8:, 1] = 160.0
    monkeypatch.setattr(OWN_TIME, "edge_passes_ns", lambda *_: edges)
    job = SimpleNamespace(pipelines=SimpleNamespace(stage=np.array([0, 1])))
    lost = OWN_TIME._lost_at_end_ns(SimpleNamespace(), job)
    assert lost[0].tolist() == [0.0] * 8 + [60.0] * 4
    assert not lost[1].any()  # its messages show its passes


def test_where_no_pass_is_shown_a_late_start_is_lost_time_as_well(monkeypatch) -> None:
    edges, starts = np.full((2, STEPS, 2), 100.0), np.zeros((2, STEPS))
    starts[0, 5] = 30.0
    monkeypatch.setattr(OWN_TIME, "shown_passes", lambda *_: None)
    monkeypatch.setattr(OWN_TIME, "edge_passes_ns", lambda *_: edges)
    monkeypatch.setattr(OWN_TIME, "lost_at_start_ns", lambda *_: starts)
    job = SimpleNamespace(name="job-0", period_ns=1000.0)
    lost = OWN_TIME.lost_share(SimpleNamespace(measured={}), job, cautious=True)
    assert lost.tolist() == (starts / 1000.0).tolist()


def test_what_a_rank_loses_at_least_is_unknown_where_its_passes_are(monkeypatch) -> None:
    """Records of most messages are lost in step 5; who waits for its receiver sends seldom."""
    work, since = np.full((2, 1, STEPS, 4), 100.0)
    work[0, 5, 1:] = np.nan
    since[0, 5] = 900.0
    passes = SimpleNamespace(
        work_ns=work,
        sent=np.cumsum(np.ones(work.shape), axis=2),
        since_receiver_ns=lambda rows: since[rows],
        to=np.full((2, 1), -1),
    )
    nothing = np.zeros((1, STEPS))
    monkeypatch.setattr(OWN_TIME, "shown_passes", lambda *_: passes)
    monkeypatch.setattr(OWN_TIME, "edge_passes_ns", lambda *_: np.full((1, STEPS, 2), np.nan))
    monkeypatch.setattr(OWN_TIME, "lost_at_start_ns", lambda *_: nothing)
    job = SimpleNamespace(name="job-0", period_ns=1000.0)
    job.phases = SimpleNamespace(endpoints=np.zeros(1, np.int64))
    job.pipelines = SimpleNamespace(stage=np.zeros(1, np.int64))
    lost = OWN_TIME.lost_share(SimpleNamespace(measured={}), job, cautious=True)
    assert np.flatnonzero(np.isnan(lost[0])).tolist() == [5]
    assert not np.nan_to_num(lost).any()


def test_a_first_pass_is_shown_if_its_length_is_known():
    """In step 1 the first message follows the end of the step before at once."""
    sent = np.array([[[30.0, 10.0, 20.0]] * 3])
    work = np.full(sent.shape, 5.0)
    work[0, 1, 1] = np.nan
    sent[0, 2], work[0, 2] = np.nan, np.nan
    passes = SimpleNamespace(sent=sent, work_ns=work)
    assert OWN_TIME._shows_first(passes).tolist() == [[True, False, False]]


def begins_of(monkeypatch, first_ns, lacks):
    """Begins of the ranks of a ring whose hops begin at ``first_ns``; some hops lack bytes."""
    hops = len(first_ns)
    bursts = SimpleNamespace(
        place=np.arange(hops), row=np.arange(hops), step=np.zeros(hops, np.int64),
        start_ns=np.array(first_ns), size=np.full(hops, 100),
    )  # fmt: skip
    flows = SimpleNamespace(src=np.arange(hops), dst=np.roll(np.arange(hops), -1))
    phases = SimpleNamespace(dp_group=np.zeros(hops, np.int64), endpoints=np.arange(hops))
    ranks = SimpleNamespace(origin_ns=0)
    job = SimpleNamespace(count=1, period_ns=1_000.0, phases=phases, ranks=ranks)
    monkeypatch.setattr(OWN_TIME, "_lack_bytes", lambda *_: np.array(lacks))
    found = OWN_TIME._begins(SimpleNamespace(flows=flows), job, bursts, every=False)
    return found[:, 0, 0]


def test_a_hop_that_lacks_bytes_hides_no_rank_that_another_hop_shows_in_time(monkeypatch) -> None:
    """The third rank is late; the hop between the other two lacks some bytes."""
    found = begins_of(monkeypatch, [0.0, 2_000.0, 2_000.0], [True, False, False])
    assert found.tolist() == [0.0, 0.0, 2_000.0]


def test_a_hop_that_lacks_bytes_and_begins_late_may_have_begun_before(monkeypatch) -> None:
    found = begins_of(monkeypatch, [2_000.0, 2_000.0, 0.0], [True, False, False])
    assert np.isnan(found).tolist() == [False, True, False]

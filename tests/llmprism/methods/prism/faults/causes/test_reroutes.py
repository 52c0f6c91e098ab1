"""A leaf that uses fewer uplinks for a while."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

REROUTES = importlib.import_module("llmprism.methods.prism.faults.causes.reroutes")
STEPS, FIRST, LAST = 26, 10, 17


@pytest.mark.parametrize(
    ("restarts", "named"), [((), ["leaf0"]), ((3,), ["leaf0"]), ((FIRST,), []), ((LAST + 1,), [])]
)
def test_other_paths_after_a_restart_are_no_fault(monkeypatch, restarts, named):
    """A job that begins again opens new connections, which are hashed again."""
    always = np.ones(STEPS, np.bool_)
    sometimes = always.copy()
    sometimes[FIRST : LAST + 1] = False
    used = {("leaf0", "spine0"): always, ("leaf0", "spine1"): sometimes}
    used |= {(spine, leaf): always for leaf, spine in used}
    monkeypatch.setattr(REROUTES, "_used", lambda *_: used)
    monkeypatch.setattr(REROUTES, "_is_lower", lambda *_: True)
    monkeypatch.setattr(REROUTES, "_rehashed", lambda *_: [])
    job = SimpleNamespace(phases=SimpleNamespace(first_of_epoch=np.array([0, *restarts])))
    job.name = "job-0"
    suspects = REROUTES.reroutes(SimpleNamespace(jobs=[job]))
    assert [one.culprit for one in suspects if one.first == FIRST] == named


@pytest.mark.parametrize(
    ("back", "cause"), [("carries less", "failed_uplinks"), ("carries", "polarised_hashing")]
)
def test_uplinks_that_never_carried_anything_back_show_nothing(monkeypatch, back, cause):
    """Two of three uplinks are no longer used; a spine never sent anything over one of them."""
    always = np.ones(STEPS, np.bool_)
    sometimes = always.copy()
    sometimes[FIRST : LAST + 1] = False
    used = {("leaf0", "spine0"): always, ("spine0", "leaf0"): always}
    used |= {("leaf0", "spine1"): sometimes, ("leaf0", "spine2"): sometimes}
    used[("spine1", "leaf0")] = sometimes if back == "carries less" else always
    monkeypatch.setattr(REROUTES, "_used", lambda *_: used)
    monkeypatch.setattr(REROUTES, "_is_lower", lambda _, name: name == "leaf0")
    job = SimpleNamespace(phases=SimpleNamespace(first_of_epoch=np.array([0])), name="job-0")
    (found,) = REROUTES.reroutes(SimpleNamespace(jobs=[job]))
    assert found.cause == cause


@pytest.mark.parametrize(("both", "sure"), [(True, REROUTES.SURE), (False, REROUTES.REHASHED)])
def test_an_uplink_that_still_carries_something_downwards_may_be_unused_for_several_reasons(
    both, sure
):
    one = REROUTES._suspect(
        SimpleNamespace(name="job-0"), "leaf0", ["spine0"], ["spine1"], both=both, steps=(3, 9)
    )
    assert one.confidence == sure
    assert bool(set(REROUTES.HASHING) & {*one.evidence["or_causes"]}) == (not both)


def rehashed_in(monkeypatch, took, restarts=()):
    """The steps in which the connections of a leaf are found to be rehashed."""
    monkeypatch.setattr(REROUTES, "_uplinks_of", lambda *_: (took, ["spine0", "spine1"]))
    monkeypatch.setattr(REROUTES, "cost_of", lambda *_: None)
    job = SimpleNamespace(phases=SimpleNamespace(first_of_epoch=np.array([0, *restarts])))
    job.name = "job-0"
    every = [*REROUTES._rehashed(None, job, "leaf0")]
    assert all(len(one.evidence["uplinks_in_use"]) == 2 for one in every)
    return [(one.first, one.last) for one in every]


def test_connections_that_change_their_uplink_at_once_are_rehashed(monkeypatch):
    """Both uplinks are still in use, and a connection without a record says nothing."""
    took = np.repeat(np.array([[0], [0], [1], [1]]), STEPS, axis=1)
    took[0, FIRST : LAST + 1], took[2, FIRST : LAST + 1] = 1, 0
    took[0, FIRST + 2] = -1
    assert rehashed_in(monkeypatch, took) == [(FIRST, LAST)]
    assert rehashed_in(monkeypatch, took, (FIRST,)) == []


def test_connections_that_are_spread_over_the_uplinks_are_not(monkeypatch):
    took = np.random.default_rng(1).integers(0, 2, (8, STEPS))
    assert rehashed_in(monkeypatch, took) == []


def test_jobs_whose_connections_meet_on_one_uplink_crowd_it(monkeypatch):
    """Each of them used another uplink before."""
    took = np.zeros((4, STEPS), np.int64)
    took[:, FIRST : LAST + 1] = 1
    always = np.ones(STEPS, np.bool_)
    used = {("leaf0", "spine1"): always, ("spine1", "leaf0"): always}
    monkeypatch.setattr(REROUTES, "_used", lambda *_: used)
    monkeypatch.setattr(REROUTES, "_is_lower", lambda _, name: name == "leaf0")
    monkeypatch.setattr(REROUTES, "_uplinks_of", lambda *_: (took, ["spine0", "spine1"]))
    monkeypatch.setattr(REROUTES, "cost_of", lambda *_: None)
    ends = np.arange(1, STEPS + 1) * 100
    phases = SimpleNamespace(first_of_epoch=np.array([0]))
    jobs = [SimpleNamespace(name=name, phases=phases, start_ns=ends - 100, end_ns=ends)
            for name in ("job-0", "job-1")]  # fmt: skip
    for context, cause in ((jobs, "job_congestion"), (jobs[:1], "polarised_hashing")):
        found = [*REROUTES.reroutes(SimpleNamespace(jobs=context))]
        assert [one.cause for one in found] == [cause] * len(context)

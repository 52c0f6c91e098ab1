"""A job that is slower for as long as another one runs beside it shares links or hosts with it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.other_jobs import beside_another, once_for_all_jobs
from llmprism.methods.prism.faults.suspects.suspects import Suspect

STEPS = 40
STEP_NS = 100_000_000


def job_of(name: str, begin: int, end: int, slow: tuple[int, int] | None = None) -> Any:
    """A job that runs in steps ``begin`` to ``end`` of the recording, slower in some of them."""
    count = end - begin + 1
    steps_ns = STEP_NS * (1 + 0.002 * np.random.default_rng(3).standard_normal(count))
    if slow:
        steps_ns[slow[0] : slow[1] + 1] += 0.2 * STEP_NS
    ends_ns = begin * STEP_NS + np.cumsum(steps_ns).astype(np.int64)
    return SimpleNamespace(
        name=name, count=count, duration_ns=steps_ns, between_ends_ns=steps_ns, tick_ns=0.0,
        period_ns=float(STEP_NS), start_ns=ends_ns - steps_ns.astype(np.int64), end_ns=ends_ns,
    )  # fmt: skip


def transfers(job: Any, first: int, last: int, symptom: str = "slow_transfers") -> Suspect:
    return Suspect(
        job,
        "network",
        symptom,
        "slow_nic",
        "address",
        "a",
        first,
        last,
        0.2,
        0.7,
        {"one_of": ["a"]},
    )


@pytest.mark.parametrize(
    ("slow", "other", "shared"),
    [
        ((0, 19), (0, 23), True),  # until the other one is done: 20 steps take as long as 24
        ((0, 19), (0, 32), False),  # the other one goes on
        ((20, 39), (20, 47), True),  # from its begin on
        ((20, 39), (0, 47), False),  # it ran before
        ((10, 19), (10, 21), True),  # from its begin to its end
        ((10, 19), (0, 21), False),  # it ran before
        ((10, 19), (10, 40), False),  # it goes on
        ((3, 39), (0, 47), False),  # both run all the time
        ((0, 39), (0, 47), False),  # there is no time without it to compare with
    ],
)
def test_what_is_slow_for_as_long_as_two_jobs_run_is_no_fault(slow, other, shared):
    job = job_of("job-0", 0, STEPS - 1, slow)
    one = transfers(job, *slow)
    assert beside_another(one, [job, job_of("job-1", *other)]) is shared
    assert not beside_another(one, [job])


def test_a_rank_that_stopped_when_another_job_was_done_stopped():
    job = job_of("job-0", 0, STEPS - 1, (0, 19))
    assert not beside_another(transfers(job, 0, 19, "stopped"), [job, job_of("job-1", 0, 23)])


@pytest.mark.parametrize(("at", "jobs"), [(10, [["job-1"]]), (30, [None, None])])
def test_what_slows_several_jobs_at_a_time_is_one_finding(at, jobs):
    """A job that is slower by a fifth, and one by less in the same steps, or at another time."""
    more = transfers(job_of("job-0", 0, 39, (10, 19)), 10, 19)
    other = job_of("job-1", 0, 39, (at, at + 9))
    other.duration_ns[at : at + 10] -= 0.1 * STEP_NS
    found = once_for_all_jobs([transfers(other, at, at + 9), more])
    assert [one.evidence.get("further_jobs") for one in found] == jobs
    assert found[-1].job is more.job
    another = replace(transfers(other, at, at + 9), culprit="b")
    assert len(once_for_all_jobs([more, another])) == 2

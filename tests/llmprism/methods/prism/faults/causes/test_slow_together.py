"""The part of the network that slow transfers of several jobs share, at the same time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes.slow_together import slow_together
from llmprism.methods.prism.faults.measures.rates import Rates
from llmprism.methods.prism.faults.measures.series import judged

STEPS, FIRST, LAST = 30, 10, 19
NAMES = "abcdefgh"


def route(*ends_and_switches):
    """What a transfer crosses: (source, destination, leaf, spine, leaf)."""
    source, target, one, spine, other = ends_and_switches
    links = {"|".join(sorted((leaf, spine))) for leaf in (one, other)}
    return frozenset({source, target, f"{source}>out", f"{target}>in", one, spine, other, *links})


def job_of(number, transfers, step_ns=1e8, first=FIRST, last=LAST):
    """A job whose steps are longer in a stretch, and its transfers: (route, how many times)."""
    stream = np.random.default_rng(number)
    shape = (len(transfers), STEPS)
    pace = 1 + stream.normal(0, 5e-3, shape)
    for row, (_, slower) in enumerate(transfers):
        pace[row, first : last + 1] *= slower
    duration = step_ns * (1 + stream.normal(0, 2e-3, STEPS))
    duration[first : last + 1] *= 1.4
    end = np.cumsum(duration)
    job = SimpleNamespace(
        name=f"job-{number}", count=STEPS, duration_ns=duration, between_ends_ns=duration,
        start_ns=end - duration, end_ns=end, tick_ns=0.0, period_ns=step_ns,
    )  # fmt: skip
    rates = Rates(
        kind=["dp"] * len(transfers),
        group=np.full(len(transfers), -1),
        conversation=np.arange(len(transfers)),
        crosses=[crossed for crossed, _ in transfers],
        pace=judged(pace, 0.1),
        busy=pace,
        lost=0.1 * (pace - 1),
        finest=np.zeros(len(transfers)),
    )
    return job, rates


def named(*measured):
    """The suspects, by job."""
    context = SimpleNamespace(
        jobs=[job for job, _ in measured],
        topology=SimpleNamespace(codes=dict.fromkeys(NAMES, 0)),
        flows=SimpleNamespace(optional={}, meta={}, paths=[]),
        measured={},
    )
    return {one.job.name: one for one, _ in slow_together(context, measured)}


def of_first(slower=3.0, **times):
    transfers = [
        (route("a", "b", "leaf0", "spine0", "leaf1"), slower),
        (route("b", "a", "leaf1", "spine1", "leaf0"), 1.0),
    ]
    return job_of(0, transfers, **times)


def of_second(slower=2.0, leaves=("leaf2", "leaf3"), **times):
    transfers = [
        (route("c", "d", leaves[0], "spine0", leaves[1]), slower),
        (route("d", "c", leaves[1], "spine1", leaves[0]), 1.0),
    ]
    return job_of(1, transfers, **times)


def test_a_switch_that_slow_transfers_of_two_jobs_cross_is_named_for_both():
    """Each of them alone would lead to any part of its only slow transfer."""
    found = named(of_first(), of_second())
    assert {name: one.culprit for name, one in found.items()} == dict.fromkeys(
        ("job-0", "job-1"), "spine0"
    )
    assert (found["job-0"].first, found["job-0"].last) == (FIRST, LAST)
    assert found["job-0"].evidence["slow_in_jobs"] == ["job-0", "job-1"]


def test_a_link_is_named_if_others_of_its_switch_are_healthy():
    healthy = job_of(2, [(route("e", "f", "leaf4", "spine0", "leaf5"), 1.0)])
    found = named(of_first(), of_second(leaves=("leaf0", "leaf3")), healthy)
    assert found["job-0"].culprit == found["job-1"].culprit == "leaf0|spine0"
    assert "job-2" not in found


@pytest.mark.parametrize(
    "second",
    [
        of_second(slower=1.0),  # its steps are longer for another reason
        of_second(first=2, last=8),  # at another time
    ],
)
def test_what_only_one_job_shows_is_left_to_the_search_in_that_job(second):
    assert not named(of_first(), second)


def test_a_part_of_one_job_that_explains_more_is_left_to_that_job():
    """Its NIC is slow, and a transfer of the other job happens to be slow at the same leaf."""
    first = job_of(0, [
        (route("a", "b", "leaf0", "spine0", "leaf1"), 3.0),
        (route("a", "e", "leaf0", "spine1", "leaf2"), 3.0),
        (route("g", "h", "leaf0", "spine1", "leaf2"), 1.0),
    ])  # fmt: skip
    second = job_of(1, [(route("c", "d", "leaf0", "spine1", "leaf3"), 1.3)])
    assert not named(first, second)

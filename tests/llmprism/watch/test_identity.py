"""A job keeps its name by its servers, and its incidents end with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmprism.part_names import Parts
from llmprism.pipeline import diagnose
from llmprism.watch.following import follow
from llmprism.watch.incidents import ENDED_NS, closed
from llmprism.watch.matching import matched
from llmprism.watch.policy import HABITUAL
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.state import Incident, KnownJob, State
from llmprism.watch.window import Span

HOUR_NS = 3_600 * SECOND_NS
SETTINGS = Settings()


def test_exactly_the_same_servers_come_before_more_recent_ones(world: Any, tmp_path: Path) -> None:
    diagnosis = diagnose(*world.save(tmp_path))
    servers = {one["address"]: one["server"] for one in world.topology["endpoints"]}
    addresses = sorted(diagnosis.jobs["address"].astype(str))
    own = sorted({servers[one] for one in addresses})
    larger = KnownJob("job-0", [*addresses, "x", "y"], [*own, "sx", "sy"], seen_ns=2 * HOUR_NS)
    same = KnownJob("job-1", addresses, own, seen_ns=HOUR_NS)
    half = KnownJob("job-2", addresses[: len(addresses) // 2], own[:4], seen_ns=3 * HOUR_NS)
    state = State(jobs=[larger, same, half], jobs_named=3)
    followed = follow(diagnosis, servers, state, Span(0, HOUR_NS))
    assert {*followed.diagnosis.jobs["job"]} == {"job-1"}
    assert same.since_ns > 0


def incident(cause: str) -> Incident:
    return Incident(
        key=cause, place="s0", job="job-0", labels={"alertname": cause, "severity": "info"},
        start_ns=0, end_ns=HOUR_NS, first_step=1, last_step=9, gpu_hours=1.0, magnitude=0.1,
        confidence=0.9, sentence="", stage="open", cause=cause,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("known", "cause", "expected"),
    [
        ("slow_nic", "hang", None),
        ("hang", "slow_nic", None),
        ("slow_nic", "slow_gpu", "slow_nic"),
        ("crash", "hang", "crash"),
    ],
)
def test_what_stops_a_job_is_another_incident_than_what_slows_it(
    known: str, cause: str, expected: str | None
) -> None:
    finding = {"job": "job-0", "cause": cause, "culprit": "s0", "start_ns": 0, "end_ns": HOUR_NS}
    finding |= {"first_step": 5, "last_step": 9}
    state = State(incidents=[incident(known)])
    [(_, found)] = matched([finding], Parts(), state, SETTINGS.quiet_ns)
    assert (found.cause if found else None) == expected


@pytest.mark.parametrize(("later_ns", "continues"), [(-SECOND_NS, True), (SECOND_NS, False)])
def test_no_fault_continues_what_a_habit_explains(later_ns: int, continues: bool) -> None:
    begin_ns = HOUR_NS + later_ns
    finding = {"job": "job-0", "cause": "slow_gpu", "culprit": "s0"}
    finding |= {"start_ns": begin_ns, "end_ns": begin_ns + HOUR_NS}
    finding |= {"first_step": 10, "last_step": 19}
    habitual = replace(incident("slow_gpu"), stage="new", withheld=HABITUAL)
    [(_, found)] = matched([finding], Parts(), State(incidents=[habitual]), SETTINGS.quiet_ns)
    assert (found is habitual) is continues


def ended(cause: str, jobs: list[KnownJob], time_ns: int) -> list[str]:
    """What happens to an open incident of the first job by a time."""
    state = State(jobs=jobs, incidents=[incident(cause)])
    span = Span(time_ns - SETTINGS.window_ns, time_ns)
    return [event for event, _ in closed(state, span, SETTINGS)]


def test_incidents_of_a_job_that_has_ended_are_closed() -> None:
    job = KnownJob("job-0", ["a"], ["s0"], since_ns=1, seen_ns=HOUR_NS)
    later = KnownJob("job-1", ["b"], ["s0", "s1"], since_ns=HOUR_NS + 1, seen_ns=2 * HOUR_NS)
    apart = KnownJob("job-2", ["c"], ["s7"], since_ns=HOUR_NS + 1, seen_ns=2 * HOUR_NS)
    soon_ns = HOUR_NS + SETTINGS.window_ns // 2
    assert ended("hang", [job, apart], soon_ns) == []
    assert ended("hang", [job, later], soon_ns) == ["resolved"]
    assert ended("slow_gpu", [job], HOUR_NS + 2 * SETTINGS.window_ns) == ["resolved"]
    assert ended("hang", [job], HOUR_NS + 2 * SETTINGS.window_ns) == []
    assert ended("hang", [job], HOUR_NS + ENDED_NS + 1) == ["resolved"]

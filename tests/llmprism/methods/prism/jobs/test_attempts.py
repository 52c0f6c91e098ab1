"""Attempts of one job follow one another."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.jobs.attempts import Job, restarted, without_attempts
from llmprism.methods.prism.records.traffic import Traffic
from llmprism.methods.prism.segment.stepping import Part, Stepping

MS = 1_000_000


def attempt(
    begin_ms: float, classes: list[list[int]], size: int = 1000, two_way: bool = False
) -> Job:
    """Four endpoints that each send once in each of five steps; ``classes`` are of senders."""
    steps = np.arange(5)
    own = []
    for senders in classes:
        start = np.repeat(steps * 100 * MS + int(begin_ms * MS), len(senders))
        rows = np.tile(senders, 5)  # a row number stands for its sender, see `connections`
        traffic = Traffic(
            rows, start, start + MS, np.full(rows.size, size), rows, np.ones(rows.size, np.bool_)
        )
        own.append(TrafficClass(np.array(senders), two_way, traffic))
    step_of = tuple(np.repeat(steps, len(senders)) for senders in classes)
    component = Component(np.arange(4, dtype=np.int32), tuple(own))
    part = Part(component, Stepping(5, 0.9, 0, step_of, steps, steps))
    return Job(np.arange(4, dtype=np.int32), ((part,),))


@pytest.mark.parametrize(
    ("later", "joined"),
    [
        (attempt(9000, [[0, 1], [2, 3]]), 1),
        (attempt(9000, [[0, 1, 2, 3]], size=1500), 2),
        (attempt(200, [[0, 1, 2, 3]]), 2),
        (attempt(9000, [[0, 1, 2, 3]], two_way=True), 2),
    ],
    ids=["other classes", "other volume", "at the same time", "a ring, then a pipeline"],
)
def test_attempts_of_a_job_follow_one_another_with_the_same_volumes(later, joined):
    connections = SimpleNamespace(src=np.arange(4), of_row=np.arange(4))
    assert len(restarted([attempt(0, [[0, 1, 2, 3]]), later], connections)) == joined


@pytest.mark.parametrize(
    ("brief", "jobs"),
    [
        (attempt(0, [[0, 1, 2, 3]], size=250), 1),
        (attempt(0, [[0, 1, 2, 3]], size=630), 2),
        (attempt(9200, [[0, 1, 2, 3]], size=250), 2),
        (replace(attempt(0, [[0, 1]]), endpoints=np.arange(2, dtype=np.int32)), 1),
        (replace(attempt(0, [[0, 1]], size=900), endpoints=np.arange(2, dtype=np.int32)), 2),
    ],
    ids=["micro-batches", "other volume", "at the same time", "some ranks", "ranks of another job"],
)
def test_a_brief_attempt_is_no_job_of_its_own(brief, jobs):
    connections = SimpleNamespace(src=np.arange(4), dst=np.arange(4)[::-1], of_row=np.arange(4))
    assert len(without_attempts([brief, attempt(9000, [[0, 1, 2, 3]])], connections)) == jobs

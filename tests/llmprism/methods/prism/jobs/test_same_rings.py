"""Rings of a job belong to it, also where their records show no steps, or others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.methods.prism.jobs.same_rings import with_same_rings
from llmprism.methods.prism.segment.stepping import Part, Stepping
from rings import ring, stepping

STEPS, PERIOD_MS, MESSAGES = 8, 100.0, 4
SERVERS = np.arange(4)
UNKNOWN = Stepping(0, 0.0, -1, (), np.empty(0, np.int64), np.empty(0, np.int64))


def starts(period_ms=PERIOD_MS):
    """Starts [ms] of messages of a ring that moves from 60 ms of each step on."""
    step = np.repeat(np.arange(STEPS), MESSAGES)
    return step * period_ms + 60 + np.tile(np.arange(MESSAGES) * 10.0, STEPS)


def with_steps():
    """A ring whose records show its steps."""
    own = ring(starts())
    step = np.repeat(np.arange(STEPS), MESSAGES * 4).astype(np.int32)
    ends = np.arange(1, STEPS + 1) * PERIOD_MS - 9
    return Part(own, replace(stepping(ends), step_of=(step,)))


def test_a_ring_without_steps_that_keeps_time_with_the_others_belongs_to_their_job():
    jobs, rest = with_same_rings([[with_steps()]], [Part(ring(starts()), UNKNOWN)], SERVERS)
    assert rest == []
    assert [part.stepping.count for part in jobs[0]] == [STEPS, STEPS]


def test_a_ring_with_too_few_steps_belongs_to_the_job_of_the_others():
    fewer = Part(ring(starts()), replace(stepping([100, 200, 300]), step_of=()))
    jobs, _ = with_same_rings([[fewer], [with_steps(), with_steps()]], [], SERVERS)
    assert [[part.stepping.count for part in own] for own in jobs] == [[STEPS] * 3]


@pytest.mark.parametrize(
    ("messages", "servers"),
    [
        (starts(period_ms=88.0), SERVERS),  # the job of another tenant drifts away
        (starts()[: STEPS * MESSAGES // 2], SERVERS),  # half as many bytes
        (np.concatenate((starts()[:16], starts()[:16] + 1)), SERVERS),  # ends in the middle
    ],
)
def test_other_rings_on_the_same_servers_stay_apart(messages, servers):
    other = Part(ring(messages), UNKNOWN)
    jobs, rest = with_same_rings([[with_steps()]], [other], servers)
    assert rest == [other]
    assert len(jobs[0]) == 1

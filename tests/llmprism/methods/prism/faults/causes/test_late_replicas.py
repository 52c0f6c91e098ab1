"""Replicas of a pipeline that are late to their collectives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes.late_replicas import late_replicas

STEPS, STEP_NS, REPLICAS, STAGES = 28, 1e8, 4, 2
LATE = 2


@pytest.fixture
def brought(monkeypatch):
    """Suspects of a job one of whose replicas is late by a share of a step in some steps."""
    of_cause = late_replicas.__globals__

    def found(steps: range) -> list[Any]:
        number = np.tile(np.arange(REPLICAS), STAGES)
        late = 0.003 * np.random.default_rng(5).standard_normal((number.size, STEPS))
        late[np.ix_(number == LATE, steps)] += 0.2
        pipelines = SimpleNamespace(
            length=STAGES, number=number, stage=np.repeat(np.arange(STAGES), REPLICAS)
        )
        phases = SimpleNamespace(endpoints=np.arange(number.size))
        job = SimpleNamespace(
            name="job-0", count=STEPS, period_ns=STEP_NS, pipelines=pipelines, phases=phases
        )
        names = [f"a{one}" for one in range(number.size)]
        topology = SimpleNamespace(
            servers=np.arange(number.size), addresses=names,
            endpoints=[SimpleNamespace(server=name) for name in names],
        )  # fmt: skip
        monkeypatch.setitem(of_cause, "lateness_ns", lambda *_: late * STEP_NS)
        monkeypatch.setitem(of_cause, "clock_tick_ns", lambda *_: 1)
        monkeypatch.setitem(
            of_cause, "first_activations_ns", lambda *_: np.full(late.shape, np.nan)
        )
        context: Any = SimpleNamespace(
            jobs=[job], topology=topology, flows=SimpleNamespace(start_ns=0, end_ns=0)
        )
        return list(late_replicas(context))

    return found


@pytest.mark.parametrize("every", [1, 2])
def test_a_replica_is_named_that_is_late_in_every_or_every_second_step(brought, every):
    [one] = brought(range(7, STEPS, every))
    assert one.culprit in {f"a{LATE}", f"a{LATE + REPLICAS}"}
    assert one.first == 7

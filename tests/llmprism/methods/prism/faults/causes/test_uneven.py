"""A stage that works longer than the others in every step."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

UNEVEN = importlib.import_module("llmprism.methods.prism.faults.causes.uneven")
STAGES, REPLICAS, STEPS, MICRO_BATCHES = 4, 2, 10, 12


@pytest.mark.parametrize(("period_ms", "named"), [(185, ["job-0 stage 0"]), (115, [])])
def test_passes_that_take_longer_than_a_step_are_none(
    monkeypatch: pytest.MonkeyPatch, period_ms: int, named: list[str]
) -> None:
    """Twelve micro-batches of 15 ms each take 180 ms in the first stage."""
    stage = np.repeat(np.arange(STAGES), REPLICAS)
    both = np.array([15e6, 3e6, 3e6, 5e6])[stage][:, None] * np.ones(STEPS)
    passes = SimpleNamespace(
        stages=STAGES, stage=stage, out=np.zeros((stage.size, STEPS, 2, MICRO_BATCHES))
    )
    stubs: dict[str, Any] = {
        "passes_of": passes,
        "work_of_endpoints_ns": (both / 3, both),
        "_forward_first": False,
        "_gradients": 1.0,
        "clock_tick_ns": 1,
    }
    for name, value in stubs.items():
        monkeypatch.setattr(UNEVEN, name, lambda *_, own=value: own)
    job = SimpleNamespace(
        name="job-0",
        count=STEPS,
        period_ns=period_ms * 1e6,
        phases=SimpleNamespace(gathers=None, endpoints=np.arange(stage.size)),
        pipelines=SimpleNamespace(stage=stage),
    )
    flows = SimpleNamespace(start_ns=None, end_ns=None)
    topology = SimpleNamespace(servers=np.arange(stage.size))
    found = UNEVEN.uneven(SimpleNamespace(jobs=[job], flows=flows, topology=topology), [])
    assert [one.culprit for one in found] == named

"""A rank that seems to have stopped, but is only slower than it was."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

STOPPED = importlib.import_module("llmprism.methods.prism.stops.stopped")
STEPS = 10


@pytest.mark.parametrize(("lately_ns", "longest_ns"), [(1000, 500.0), (1400, 900.0), (900, 500.0)])
def test_ranks_rest_for_longer_while_steps_are_slow(lately_ns, longest_ns):
    duration = np.full(STEPS, 1000.0)
    duration[-3:] = lately_ns
    pipelines = SimpleNamespace(micro_batches=4, length=2)
    job: Any = SimpleNamespace(duration_ns=duration, period_ns=1000.0, pipelines=pipelines)
    assert STOPPED._longest_ns(job, STEPS) == longest_ns

"""A rank that seems to have stopped, but sent gradients later, or is only slower than it was."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.stops.tails import Stuck, Tail

STOPPED = importlib.import_module("llmprism.methods.prism.stops.stopped")
STEPS, STEP_NS = 10, 1000


def world(later: dict[tuple[int, int], int]) -> Any:
    """Two endpoints exchange 100 bytes each way in every step, and ``later`` after the last one."""
    rows = [(0, 1, 100, step * STEP_NS) for step in range(STEPS)]
    rows += [(1, 0, 100, step * STEP_NS) for step in range(STEPS)]
    rows += [(src, dst, moved, STEPS * STEP_NS + 500) for (src, dst), moved in later.items()]
    src, dst, moved, start = np.array(rows, np.int64).T
    flows = SimpleNamespace(src=src, dst=dst, bytes=moved, start_ns=start)
    own = SimpleNamespace(row=np.arange(2 * STEPS))
    part = SimpleNamespace(kind="dp", one=SimpleNamespace(traffic=own))
    job = SimpleNamespace(count=STEPS, phases=SimpleNamespace(classes=[part]))
    tail = {"dp": np.arange(2 * STEPS, src.size)}
    end = STEPS * STEP_NS
    return SimpleNamespace(flows=flows), job, Tail(STEPS, end, end, None, end, False, tail, src[:0])


@pytest.mark.parametrize(
    ("later", "went_on"),
    [
        ({}, False),
        ({(0, 1): 50}, True),
        ({(0, 1): 5}, False),  # an acknowledgement
        ({(1, 0): 100}, True),  # the partner would have sent half
        ({(1, 0): 50}, False),
    ],
)
def test_a_rank_that_exchanges_gradients_went_on(later, went_on):
    context, job, tail = world(later)
    stuck = Stuck(0, STEPS * STEP_NS, "received its input and sent nothing")
    assert STOPPED._exchanged_later(context, job, tail, stuck) is went_on


@pytest.mark.parametrize(("lately_ns", "longest_ns"), [(1000, 500.0), (1400, 900.0), (900, 500.0)])
def test_ranks_rest_for_longer_while_steps_are_slow(lately_ns, longest_ns):
    duration = np.full(STEPS, 1000.0)
    duration[-3:] = lately_ns
    pipelines = SimpleNamespace(micro_batches=4, length=2)
    job: Any = SimpleNamespace(duration_ns=duration, period_ns=1000.0, pipelines=pipelines)
    assert STOPPED._longest_ns(job, STEPS) == longest_ns

"""Stages that begin a step later than those of other replicas."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

MODULE = import_module("llmprism.methods.prism.faults.passes.late_starts")
STEPS, STEP_NS, LATE_NS = 24, 1e8, 2e7


@pytest.mark.parametrize(("replicas", "ranks"), [(2, 1), (2, 2), (2, 4), (3, 1), (4, 2)])
def test_all_ranks_of_the_late_replica_lose_time_and_no_others(monkeypatch, replicas, ranks):
    """Ranks of a tensor-parallel group are late together: of two replicas, half of all ranks."""
    rows = replicas * ranks
    end = np.cumsum(np.full(STEPS, STEP_NS))
    begin = end - 0.9 * STEP_NS + 1e4 * np.random.default_rng(2).standard_normal((rows, STEPS))
    begin[:ranks, 9:17] += LATE_NS
    job = SimpleNamespace(
        count=STEPS,
        period_ns=STEP_NS,
        phases=SimpleNamespace(endpoints=np.arange(rows), first_of_epoch=np.array([0])),
        pipelines=SimpleNamespace(stage=np.zeros(rows, np.int64), length=1),
        ranks=SimpleNamespace(end=np.broadcast_to(end, (rows, STEPS))),
    )
    got = np.full(begin.shape, np.nan)
    monkeypatch.setattr(MODULE, "first_messages_ns", lambda *_: (begin, got))
    lost = MODULE.lost_at_start_ns(SimpleNamespace(), job, np.zeros(begin.shape, np.bool_))
    expected = np.zeros((rows, STEPS))
    expected[:ranks, 9:17] = LATE_NS
    assert lost == pytest.approx(expected, abs=2e5)


@pytest.mark.parametrize("shown", [False, True])
def test_a_later_stage_that_ends_its_steps_last_may_begin_late_too(monkeypatch, shown):
    """Its inputs come at once, and one of four ranks pauses before it uses them.

    Where its first pass is shown by itself, the pause is a part of that.
    """
    end = np.cumsum(np.full(STEPS, STEP_NS)) * np.ones((4, 1))
    got = end - 0.99 * STEP_NS
    sent = got + 0.1 * STEP_NS + 1e4 * np.random.default_rng(2).standard_normal((4, STEPS))
    sent[2, 9:17:2] += LATE_NS
    job = SimpleNamespace(
        count=STEPS,
        period_ns=STEP_NS,
        phases=SimpleNamespace(endpoints=np.arange(4), first_of_epoch=np.array([0])),
        pipelines=SimpleNamespace(stage=np.ones(4, np.int64), length=2),
        ranks=SimpleNamespace(end=end),
    )
    monkeypatch.setattr(MODULE, "first_messages_ns", lambda *_: (sent, got))
    lost = MODULE.lost_at_start_ns(SimpleNamespace(), job, np.full(sent.shape, shown))
    expected = np.zeros((4, STEPS))
    expected[2, 9:17:2] = 0.0 if shown else LATE_NS
    assert lost == pytest.approx(expected, abs=2e5)

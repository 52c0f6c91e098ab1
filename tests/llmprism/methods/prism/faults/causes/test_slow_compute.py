"""Slow ranks of pipelines, whether records show each pass or the first and last one only."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.series import Judged
from llmprism.methods.prism.faults.passes.passes import Passes

MODULE = import_module("llmprism.methods.prism.faults.causes.slow_compute")
RANKS, STEPS, MESSAGES, PASS_NS = 8, 24, 8, 5e6


@pytest.mark.parametrize(
    ("known_in", "slow", "named"),
    [
        ("no", [2], ["10.0.2.1"]),
        ("slow", [2], ["10.0.2.1"]),
        ("all", [2], []),
        ("no", [0, 1, 4], []),  # three of eight, in several stages: their work is divided unevenly
    ],
)
def test_a_slow_rank_shows_in_the_first_and_last_pass_where_others_are_unknown(
    monkeypatch, known_in, slow, named
):
    """Ranks are slow for eight steps. Other passes of them, if any is known, are all alike."""
    stream = np.random.default_rng(1)
    edges = PASS_NS * (1 + 0.01 * stream.standard_normal((RANKS, STEPS, 2)))
    edges[slow, 9:17] *= 1.4
    shape = (RANKS, STEPS, 2, MESSAGES)
    never = np.full((RANKS, STEPS), np.nan)
    passes = Passes(np.full(shape, np.nan), np.full(shape, np.nan), None, None, 2, 1, never)
    work = np.full((RANKS, STEPS, 2 * MESSAGES), PASS_NS if known_in != "no" else np.nan)
    if known_in == "slow":
        work[slow, :9] = work[slow, 17:] = np.nan
    passes.__dict__["work_ns"] = work
    phases = SimpleNamespace(endpoints=np.arange(RANKS))
    pipelines = SimpleNamespace(length=2, stage=np.arange(RANKS) // 4)
    duration = np.full(STEPS, 1e8)
    duration[9:17] *= 1.3
    job = SimpleNamespace(
        name="job-0", count=STEPS, phases=phases, pipelines=pipelines, duration_ns=duration,
        between_ends_ns=duration, tick_ns=0.0, period_ns=1e8,
    )  # fmt: skip
    topology = SimpleNamespace(
        servers=np.arange(RANKS),
        addresses=[f"10.0.{rank}.1" for rank in range(RANKS)],
        endpoints=[SimpleNamespace(server=f"s{rank}") for rank in range(RANKS)],
    )
    flows = SimpleNamespace(start_ns=np.arange(100), end_ns=np.arange(100) + 7)
    none = np.zeros((RANKS, STEPS))
    monkeypatch.setattr(MODULE, "shown_passes", lambda *_: passes)
    monkeypatch.setattr(MODULE, "edge_passes_ns", lambda *_: edges)
    monkeypatch.setattr(MODULE, "lost_share", lambda *_, **__: none)
    monkeypatch.setattr(MODULE, "slow_messages_at", lambda *_: none.astype(bool))
    context = SimpleNamespace(jobs=[job], topology=topology, flows=flows)
    found = [(one.culprit, one.first, one.last) for one in MODULE.slow_compute(context)]
    assert found == [(one, 9, 16) for one in named]


@pytest.mark.parametrize(("receiver_ms", "slow"), [(6.0, True), (9.0, False), (5.0, True)])
def test_who_sends_to_a_rank_that_is_less_slow_is_slow_itself(monkeypatch, receiver_ms, slow):
    """A pass takes 10 ms in place of 5 ms, and has waited for its receiver for most of them."""
    passes = SimpleNamespace(work_ns=np.full((2, STEPS, MESSAGES), PASS_NS))
    passes.to = np.array([[1, -1], [-1, -1]])
    passes.work_ns[0, 9:17], passes.work_ns[1, 9:17] = 10e6, receiver_ms * 1e6
    since = np.where(passes.work_ns > 9.5e6, 6e6, PASS_NS)
    passes.since_receiver_ns = lambda rows: since[rows]
    monkeypatch.setattr(MODULE, "slow_messages_at", lambda *_: np.zeros((2, STEPS), bool))
    monkeypatch.setattr(MODULE, "MOST", 1.0)  # of the ranks that are slow together
    ratio = np.median(passes.work_ns, axis=2) / PASS_NS
    own = Judged(ratio, np.full(2, 0.01), ratio > 1.05, ratio > 1.1)
    found = MODULE._slow(SimpleNamespace(), SimpleNamespace(), passes, own)
    assert found[0].tolist() == [slow and 9 <= step < 17 for step in range(STEPS)]

"""Passes that are about as long as a tick of the clock: what rounding adds is no slowness."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

# the package has a function of the same name
slow_compute = importlib.import_module("llmprism.methods.prism.faults.causes.slow_compute")

RANKS, STEPS, TICK_NS = 8, 40, 1e6


def suspects_of(monkeypatch, passes_ns, healthy_ns=60e6):
    """Suspects where each step shows two passes of each rank; half of the ranks are a stage.

    A usual step lasts 60 ms, and a healthy one ``healthy_ns``.
    """
    times_ns = np.arange(1000, dtype=np.int64) * int(TICK_NS)
    ranks = np.arange(RANKS)
    stage = ranks // (RANKS // 2)
    job = SimpleNamespace(
        name="job-0", count=STEPS, period_ns=60e6, phases=SimpleNamespace(endpoints=ranks),
        pipelines=SimpleNamespace(length=2, stage=stage), duration_ns=np.full(STEPS, healthy_ns),
    )  # fmt: skip
    names = [f"10.0.{rank}.1" for rank in range(RANKS)]
    topology = SimpleNamespace(
        servers=ranks, addresses=names, endpoints=[SimpleNamespace(server=name) for name in names]
    )
    flows = SimpleNamespace(start_ns=times_ns, end_ns=times_ns)
    monkeypatch.setattr(slow_compute, "shown_passes", lambda *_: None)
    monkeypatch.setattr(slow_compute, "edge_passes_ns", lambda *_: passes_ns)
    monkeypatch.setattr(
        slow_compute, "slow_messages_at", lambda *_: np.zeros((RANKS, STEPS), np.bool_)
    )
    context = SimpleNamespace(jobs=[job], flows=flows, topology=topology)
    return [*slow_compute.slow_compute(context)]


def rounded(true_ns):
    """What a coarse clock shows of passes each of which begins a little later within a tick."""
    begin_ns = np.cumsum(np.full(true_ns.shape[1:], 7.02e6), axis=0)
    end_ns = begin_ns + true_ns
    return np.maximum((end_ns // TICK_NS - begin_ns // TICK_NS) * TICK_NS, TICK_NS)


@pytest.mark.parametrize("pass_ns", [1.1e6, 1.2e6, 2.3e6])
def test_rounding_makes_nobody_slow(monkeypatch, pass_ns):
    """One rank is a little slower than the others, always: in some steps that is one tick more."""
    true_ns = np.full((RANKS, STEPS, 2), pass_ns // TICK_NS * TICK_NS)
    true_ns[5] = pass_ns
    assert suspects_of(monkeypatch, rounded(true_ns)) == []


def test_a_rank_that_takes_several_ticks_more_is_slow(monkeypatch):
    true_ns = np.full((RANKS, STEPS, 2), 2.1e6)
    true_ns[3, 12:24] *= 4
    (suspect,) = suspects_of(monkeypatch, rounded(true_ns))
    assert suspect.culprit == "10.0.3.1"
    assert (suspect.first, suspect.last) == (12, 23)
    (of_six,) = suspects_of(monkeypatch, rounded(true_ns), healthy_ns=10e6)
    assert of_six.lost_share == pytest.approx(suspect.lost_share / 6)


def test_a_pass_that_ends_with_the_message_of_another_does_not_hide_a_slow_rank(monkeypatch):
    """A record of rank 0 shows next to nothing of a pass, and then some waiting."""
    true_ns = np.full((RANKS, STEPS, 2), 20e6)
    true_ns[0] = 1e6
    true_ns[0, 12:24] += 3e6
    true_ns[3, 12:24] *= 2
    (suspect,) = suspects_of(monkeypatch, true_ns)
    assert suspect.culprit == "10.0.3.1"

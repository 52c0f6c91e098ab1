"""Time that a first stage loses before its first activation and after its last gradient."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np

OWN_TIME = importlib.import_module("llmprism.methods.prism.faults.lateness.own_time")
STEPS = 12


def test_a_first_stage_loses_what_its_last_backward_passes_take_longer(monkeypatch) -> None:
    """Two stages: the first one sends nothing after its backward passes."""
    edges = np.full((2, STEPS, 2), 100.0)
    edges[:, 8:, 1] = 160.0
    monkeypatch.setattr(OWN_TIME, "edge_passes_ns", lambda *_: edges)
    job = SimpleNamespace(pipelines=SimpleNamespace(stage=np.array([0, 1])))
    lost = OWN_TIME._lost_at_end_ns(SimpleNamespace(), job)
    assert lost[0].tolist() == [0.0] * 8 + [60.0] * 4
    assert not lost[1].any()  # its messages show its passes


def test_where_no_pass_is_shown_a_late_start_is_lost_time_as_well(monkeypatch) -> None:
    edges, starts = np.full((2, STEPS, 2), 100.0), np.zeros((2, STEPS))
    starts[0, 5] = 30.0
    monkeypatch.setattr(OWN_TIME, "shown_passes", lambda *_: None)
    monkeypatch.setattr(OWN_TIME, "edge_passes_ns", lambda *_: edges)
    monkeypatch.setattr(OWN_TIME, "lost_at_start_ns", lambda *_: starts)
    job = SimpleNamespace(name="job-0", period_ns=1000.0)
    lost = OWN_TIME.lost_share(SimpleNamespace(measured={}), job, cautious=True)
    assert lost.tolist() == (starts / 1000.0).tolist()

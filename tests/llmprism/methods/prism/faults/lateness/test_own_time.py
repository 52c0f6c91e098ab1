"""Time that a first stage loses after the last gradient it gets."""

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

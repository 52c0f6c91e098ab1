"""Saves that take longer for as many bytes than the first few did."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes.slow_storage import Saves, slow_storage


def test_storage_is_slow_where_only_the_first_two_saves_are_healthy(monkeypatch):
    step = np.arange(3, 27, 3)
    pace = np.where(step < 9, 1.0, 6.0)
    duration_ns = np.full(27, 1e8)
    duration_ns[step] += 1e8 * pace
    job = SimpleNamespace(between_ends_ns=duration_ns, period_ns=1e8, tick_ns=0.0)
    module = import_module("llmprism.methods.prism.faults.causes.slow_storage")
    monkeypatch.setattr(module, "saves_of", lambda *_: [Saves("s0009", step, pace)])
    (found,) = slow_storage(SimpleNamespace(jobs=[job]))
    assert (found.culprit, found.first, found.last) == ("s0009", 9, 24)
    assert found.is_believed
    assert found.cost.lost_ns == pytest.approx(6 * 5e8)  # a healthy save takes a step as well


def test_a_save_that_lacks_a_record_is_not_slow():
    step = np.arange(8)
    begin_ns, size = (step * 10e8).astype(np.int64), np.full(8, 4_000_000)
    size[3] = 3_000_000
    flows = SimpleNamespace(start_ns=begin_ns, end_ns=begin_ns + 10**8, bytes=size)
    job = SimpleNamespace(period_ns=1e8, count=8, end_ns=begin_ns + 10**8)
    module = import_module("llmprism.methods.prism.faults.causes.slow_storage")
    _, pace = module._saves(SimpleNamespace(flows=flows), job, step)
    assert np.ptp(pace) == 0

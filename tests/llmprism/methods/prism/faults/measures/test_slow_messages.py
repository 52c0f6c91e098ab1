"""Ranks that wait for slow messages, their own or those of ranks in lockstep with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from llmprism.methods.prism.faults.measures import rates


def test_other_nics_of_a_server_and_stage_wait_for_slow_messages_too(monkeypatch):
    """Messages from c to a are slow; a and b are of one server and stage, c and d of another."""
    ratio = np.ones((2, 6))
    ratio[0, 3:] = 4.0
    pace = SimpleNamespace(ratio=ratio, out=ratio > 2)
    crosses = [frozenset({"c", "a"}), frozenset({"e", "f"})]
    measured = SimpleNamespace(kind=["pp", "pp"], crosses=crosses, pace=pace)
    monkeypatch.setattr(rates, "rates_of", lambda *_: measured)
    topology = SimpleNamespace(addresses=[*"abcdef"], servers=np.array([0, 0, 1, 1, 0, 2]))
    job: Any = SimpleNamespace(
        count=6, phases=SimpleNamespace(endpoints=np.arange(6)),
        pipelines=SimpleNamespace(stage=np.array([1, 1, 0, 0, 0, 1])),
    )  # fmt: skip
    context: Any = SimpleNamespace(topology=topology)
    slow = rates.slow_messages_at(context, job)
    assert slow[:4, 3:].all()
    assert not slow[:, :3].any()
    assert not slow[4:].any()

"""When steps begin and end; figures that several causes need are measured once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from llmprism.methods.prism.faults.context import JobView, measured_once


def test_each_job_and_argument_is_measured_once_in_each_context() -> None:
    log: list[tuple[str, bool]] = []

    @measured_once
    def figure(_context: Any, job: Any, *, cautious: bool) -> str:
        log.append((job.name, cautious))
        return f"{job.name}, {cautious}"

    @measured_once
    def other(_context: Any, job: Any, *, cautious: bool) -> str:
        return f"other {job.name}, {cautious}"

    contexts: list[Any] = [SimpleNamespace(measured={}) for _ in range(2)]
    jobs: list[Any] = [SimpleNamespace(name=name) for name in "ab"]
    for context in contexts:
        for _ in range(2):
            for job in jobs:
                for cautious in (False, True):
                    assert figure(context, job, cautious=cautious) == f"{job.name}, {cautious}"
                    assert other(context, job, cautious=cautious).startswith("other")
    assert log == [("a", False), ("a", True), ("b", False), ("b", True)] * 2


def test_steps_of_which_nothing_is_known_lie_between_those_around_them() -> None:
    """Two of six steps have no time; all others begin 100 ns after each other, and last 60 ns."""
    start = np.arange(6) * 100.0 + np.zeros((3, 1))
    start[:, [2, 3]] = np.nan
    ranks: Any = SimpleNamespace(start=start, end=start + 60, origin_ns=1000)
    unused: Any = None
    job = JobView("job", unused, unused, ranks)
    assert job.start_ns.tolist() == [1000, 1100, 1200, 1300, 1400, 1500]
    assert job.end_ns.tolist() == [1060, 1160, 1260, 1360, 1460, 1560]

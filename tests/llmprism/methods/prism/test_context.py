"""When steps begin and end; figures that several causes need are measured once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from llmprism.methods.prism.context import JobView, measured_once


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
    job = JobView("job", unused, unused, ranks, unused)
    assert job.start_ns.tolist() == [1000, 1100, 1200, 1300, 1400, 1500]
    assert job.end_ns.tolist() == [1060, 1160, 1260, 1360, 1460, 1560]


def test_the_tick_of_a_clock_shows_in_lengths_where_ends_are_estimated() -> None:
    """A clock of 1 ms; the ends of each rank are estimated to be later by a time of its own."""
    length = np.random.default_rng(1).integers(36, 43, (8, 30)) * 1e6
    end = np.cumsum(length, axis=1) + np.array([0.0, 160e3, 960e3, 250e3] * 2)[:, None]
    ranks: Any = SimpleNamespace(start=end - 30e6, end=end, origin_ns=0)
    unused: Any = None
    assert JobView("job", unused, unused, ranks, unused).tick_ns == 1e6
    ranks.end = end + np.random.default_rng(2).random(end.shape) * 1e6
    assert JobView("job", unused, unused, ranks, unused).tick_ns == 0

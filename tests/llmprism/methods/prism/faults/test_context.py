"""A figure of a job that several causes need is measured once for each job and arguments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from llmprism.methods.prism.faults.context import measured_once


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

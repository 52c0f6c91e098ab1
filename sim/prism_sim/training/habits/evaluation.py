"""Evaluation: after every n steps, forward passes through the whole pipeline, without an update.

Activations are sent as in training, gradients are not. There is no data-parallel traffic, except
fully sharded parameters, which are gathered as in every forward pass.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from prism_sim.training.context import JobContext, Process, StepWorker
from prism_sim.training.habits.base import Habit, HabitBase


class Evaluation(HabitBase):
    """Forward passes over held-out data, after every n steps."""

    key: ClassVar[str] = "evaluation"
    about: ClassVar[str] = "Pauses for evaluation. Left out: none."
    spans: ClassVar[tuple[str, ...]] = ("eval_fwd",)

    every: int = Field(ge=1, le=1_000_000_000, description="Steps from one evaluation to the next.")
    micro_batches: int = Field(
        ge=1, le=1_000_000, description="Micro-batches that each replica evaluates."
    )

    def start(self, context: JobContext) -> Habit:
        return _Evaluates(context, self)


class _Evaluates(Habit):
    """Evaluates after every n steps, except after the last."""

    def __init__(self, context: JobContext, options: Evaluation) -> None:
        self._progress = context.progress
        self._options = options

    def after(self, worker: StepWorker, step: int) -> Process:
        if (step + 1) % self._options.every == 0 and step != self._progress.steps[-1]:
            yield from worker.evaluate(step, self._options.micro_batches)

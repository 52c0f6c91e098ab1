"""Evaluation: every so many steps, forward passes through the whole pipeline, and no update.

Activations travel as in training, gradients do not; data-parallel traffic is silent, but for
fully sharded parameters, which are gathered as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prism_sim.training.habits.base import Habit, Process

if TYPE_CHECKING:
    from prism_sim.training.job import TrainingJob
    from prism_sim.training.worker import Worker


class Evaluates(Habit):
    """Evaluates ``micro_batches`` after every ``every`` steps, but not after the last."""

    def __init__(self, job: TrainingJob, every: int, micro_batches: int) -> None:
        self._job = job
        self._every = every
        self._micro_batches = micro_batches

    def after(self, worker: Worker, step: int) -> Process:
        if (step + 1) % self._every == 0 and step != self._job.steps_ahead[-1]:
            yield from worker.evaluate(step, self._micro_batches)


def evaluation(job: TrainingJob) -> Sequence[Habit]:
    """The job's habit of evaluating, if it has one."""
    wish = job.model.evaluation
    return [Evaluates(job, wish.every, wish.micro_batches)] if wish else []

"""What every habit has in common: something that a job does besides its steps.

A habit has two parts: its options in a scenario (:class:`HabitBase`, a key of the job), and the
actions of the workers of a running job (:class:`Habit`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from prism_sim.scenario.base import Closed, Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.context import JobContext, Process, StepWorker


class Habit:
    """What the workers of one job do before or after steps; by itself, nothing."""

    def before(self, worker: StepWorker, step: int) -> Process:
        """What ``worker`` does before the first forward pass of ``step``."""
        yield from ()

    def after(self, worker: StepWorker, step: int) -> Process:
        """What ``worker`` does when ``step`` is over."""
        yield from ()

    def finish(self, worker: StepWorker) -> Process:
        """What ``worker`` does when all steps are over, before its process ends."""
        yield from ()


class HabitBase(Closed, ABC):
    """A habit in a scenario; each kind adds its options as fields.

    Attributes
    ----------
    key : the key of a job that asks for the habit.
    about : what that key means, for the schema.
    spans : kinds of spans that the habit leaves in the truth.
    needs_storage : whether it reads from, or writes to, the scenario's storage servers.
    saves_progress : whether a restart begins with what the habit has saved.
    """

    key: ClassVar[str]
    about: ClassVar[str]
    spans: ClassVar[tuple[str, ...]] = ()
    needs_storage: ClassVar[bool] = False
    saves_progress: ClassVar[bool] = False

    @abstractmethod
    def start(self, context: JobContext) -> Habit:
        """What the workers of a job do by this habit."""

    def remarks(self, job: JobConfig, at: Loc, has_storage: bool) -> Remarks:
        """What keeps ``job`` (at ``at`` in the scenario) from this habit."""
        if self.needs_storage and not has_storage:
            what = f"job {job.name} needs storage for its {self.key}, and there is none"
            how = "name servers for it: storage: [s0004], beyond those that train"
            yield Remark((*at, self.key), what, how, (("storage",),))

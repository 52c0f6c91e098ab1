"""The base of all habits: activities of a job besides its steps.

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
    """Actions of the workers of one job before or after steps; the base class does nothing."""

    def before(self, worker: StepWorker, step: int) -> Process:
        """Actions of ``worker`` before the first forward pass of ``step``."""
        yield from ()

    def after(self, worker: StepWorker, step: int) -> Process:
        """Actions of ``worker`` after ``step``."""
        yield from ()

    def finish(self, worker: StepWorker) -> Process:
        """Actions of ``worker`` after all steps, before its process ends."""
        yield from ()


class HabitBase(Closed, ABC):
    """A habit in a scenario; each kind adds its options as fields.

    Attributes
    ----------
    key : key of a job that enables the habit.
    about : description of that key, for the schema.
    spans : kinds of spans of the habit in the truth.
    needs_storage : whether it reads from, or writes to, the scenario's storage servers.
    saves_progress : whether a restart begins with the state that the habit saved.
    """

    key: ClassVar[str]
    about: ClassVar[str]
    spans: ClassVar[tuple[str, ...]] = ()
    needs_storage: ClassVar[bool] = False
    saves_progress: ClassVar[bool] = False

    @abstractmethod
    def start(self, context: JobContext) -> Habit:
        """The habit of one running job."""

    def remarks(self, job: JobConfig, at: Loc, has_storage: bool) -> Remarks:
        """Errors if ``job`` (at ``at`` in the scenario) cannot have this habit."""
        if self.needs_storage and not has_storage:
            what = f"job {job.name} needs storage for its {self.key}, and there is none"
            how = "name servers for it: storage: [s0004], beyond those that train"
            yield Remark((*at, self.key), what, how, (("storage",),))

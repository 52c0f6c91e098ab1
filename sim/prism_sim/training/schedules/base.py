"""The base of all schedules: options, checks, and the order of a stage's work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from prism_sim.scenario.base import Closed, Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.schedules.work import PASS_SPANS, WEIGHTS, Place, Work


class ScheduleBase(Closed, ABC):
    """The order of a pipeline stage's work; each kind adds its options as fields.

    Attributes
    ----------
    chunked : whether stages hold several chunks of layers.
    splits_backward : whether gradients of the weights are separate passes.
    """

    chunked: ClassVar[bool] = False
    splits_backward: ClassVar[bool] = False

    kind: str

    @abstractmethod
    def work(self, place: Place) -> list[Work]:
        """The work of the stage ``place`` in one step, in order."""

    def remarks(self, job: JobConfig, at: Loc) -> Remarks:
        """Errors if ``job`` (at ``at`` in the scenario) cannot use this schedule."""
        if job.chunks > 1 and not self.chunked:
            what = f"schedule {self.kind} has one chunk a stage, and chunks is {job.chunks}"
            yield Remark((*at, "chunks"), what, "use schedule: interleaved", ((*at, "schedule"),))

    @property
    def spans(self) -> tuple[str, ...]:
        """Kinds of spans of its passes in the truth."""
        return PASS_SPANS if self.splits_backward else PASS_SPANS[:WEIGHTS]

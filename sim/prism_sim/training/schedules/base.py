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
    chunked : whether the job decides how many chunks of layers a stage holds.
    splits_backward : whether gradients of the weights are separate passes.
    copies : stages that hold each part of the model.
    """

    chunked: ClassVar[bool] = False
    splits_backward: ClassVar[bool] = False
    copies: ClassVar[int] = 1

    kind: str

    @abstractmethod
    def work(self, place: Place) -> list[Work]:
        """The work of the stage ``place`` in one step, in order."""

    def stage_chunks(self, chunks: int) -> int:
        """Chunks of layers that a stage holds, if the job has ``chunks``."""
        return chunks

    def parts(self, stages: int, chunks: int) -> int:
        """Parts that the model's layers are cut into."""
        return stages * chunks

    def part_of(self, stage: int, chunk: int, stages: int) -> int:
        """The part of the model that is ``chunk`` of ``stage``."""
        return chunk * stages + stage

    def holder(self, part: int, micro_batch: int, place: Place) -> tuple[int, int]:
        """The stage that passes ``micro_batch`` through ``part``, and its chunk there.

        ``place`` is any stage of the pipeline.
        """
        chunk, stage = divmod(part, place.stages)
        return stage, chunk

    def alike(self, stage: int, stages: int) -> tuple[int, ...]:
        """The stages that hold the same parts as ``stage``, itself included, in order.

        Each part is the same chunk on all of them.
        """
        return (stage,)

    def remarks(self, job: JobConfig, at: Loc) -> Remarks:
        """Errors if ``job`` (at ``at`` in the scenario) cannot use this schedule."""
        if job.chunks > 1 and not self.chunked:
            what = f"schedule {self.kind} has one chunk a stage, and chunks is {job.chunks}"
            yield Remark((*at, "chunks"), what, "use schedule: interleaved", ((*at, "schedule"),))

    @property
    def spans(self) -> tuple[str, ...]:
        """Kinds of spans of its passes in the truth."""
        return PASS_SPANS[: WEIGHTS + 1] if self.splits_backward else PASS_SPANS[:WEIGHTS]

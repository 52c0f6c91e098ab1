"""The job waits until its checkpoint is written."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.checkpoints.base import Cadence, CheckpointBase
from prism_sim.operations.intervals import Interval
from prism_sim.operations.intervals.base import Known
from prism_sim.operations.intervals.daly import Daly


class Synchronous(CheckpointBase):
    """The job waits until its checkpoint is written."""

    kind: Literal["sync"] = "sync"
    stall_s: float = Field(gt=0, description="time to write a checkpoint [s]")
    interval: Interval = Field(default=Daly(), description="when to save")

    def cadence(self, known: Known) -> Cadence:
        return Cadence(self.interval.work_s(self.stall_s, known), self.stall_s)

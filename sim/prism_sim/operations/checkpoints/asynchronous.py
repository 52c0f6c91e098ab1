"""The job waits only for a copy in memory; the copy is written while it continues."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.checkpoints.base import Cadence, CheckpointBase
from prism_sim.operations.intervals import Interval
from prism_sim.operations.intervals.base import Known
from prism_sim.operations.intervals.daly import Daly


class Asynchronous(CheckpointBase):
    """A checkpoint that is restored only after it has been written."""

    kind: Literal["async"] = "async"
    stall_s: float = Field(gt=0, description="time to copy a checkpoint in memory [s]")
    write_s: float = Field(ge=0, description="time to write the copy to storage [s]")
    interval: Interval = Field(default=Daly(), description="when to save")

    def cadence(self, known: Known) -> Cadence:
        work_s = max(self.interval.work_s(self.stall_s, known), self.write_s)
        return Cadence(work_s, self.stall_s, self.write_s)

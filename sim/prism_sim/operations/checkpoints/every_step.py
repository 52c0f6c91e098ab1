"""A checkpoint at every step, into the memory of other servers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.checkpoints.base import Cadence, CheckpointBase
from prism_sim.operations.intervals.base import Known


class EveryStep(CheckpointBase):
    """ByteRobust (Table 8) has stalls of 0.01 to 0.04 s a step, below 0.9 % of its time."""

    kind: Literal["every_step"] = "every_step"
    step_s: float = Field(gt=0, description="time of a step [s]")
    stall_s: float = Field(default=0.04, ge=0, description="time that a checkpoint adds [s]")

    def cadence(self, known: Known) -> Cadence:
        return Cadence(self.step_s, self.stall_s)

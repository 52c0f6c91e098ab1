"""Checkpoint policies; a new kind is a class and one entry below."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from prism_sim.operations.intervals import Daly, Interval, Known
from prism_sim.registry import Registry, by_literal
from prism_sim.scenario.base import Closed


@dataclass(frozen=True)
class Cadence:
    """When a job saves.

    Attributes
    ----------
    work_s : work between two checkpoints.
    stall_s : time that each of them stops the job.
    lag_s : time from its end until it can be restored.
    """

    work_s: float
    stall_s: float
    lag_s: float = 0.0


class CheckpointBase(Closed):
    """A checkpoint policy."""

    @abstractmethod
    def cadence(self, known: Known) -> Cadence:
        """When the job saves."""

    def unmet(self, known: Known) -> str | None:
        """Why such a job cannot have this policy; None: it can."""
        cadence = self.cadence(known)
        if cadence.stall_s + cadence.lag_s > known.mttf_s:
            takes_s = cadence.stall_s + cadence.lag_s
            return (
                f"a checkpoint takes {takes_s:g} s, and the job fails every {known.mttf_s:.0f} s; "
                "it would hardly save"
            )
        return None


class Synchronous(CheckpointBase):
    """The job waits until its checkpoint is written."""

    kind: Literal["sync"] = "sync"
    stall_s: float = Field(gt=0, description="time to write a checkpoint [s]")
    interval: Interval = Field(default=Daly(), description="when to save")

    def cadence(self, known: Known) -> Cadence:
        return Cadence(self.interval.work_s(self.stall_s, known), self.stall_s)


class Asynchronous(CheckpointBase):
    """The job waits only for a copy in memory; the copy is written while it continues.

    A checkpoint that is restored only after it has been written.
    """

    kind: Literal["async"] = "async"
    stall_s: float = Field(gt=0, description="time to copy a checkpoint in memory [s]")
    write_s: float = Field(ge=0, description="time to write the copy to storage [s]")
    interval: Interval = Field(default=Daly(), description="when to save")

    def cadence(self, known: Known) -> Cadence:
        work_s = max(self.interval.work_s(self.stall_s, known), self.write_s)
        return Cadence(work_s, self.stall_s, self.write_s)


class EveryStep(CheckpointBase):
    """A checkpoint at every step, into the memory of other servers.

    ByteRobust (Table 8) has stalls of 0.01 to 0.04 s a step, below 0.9 % of its time.
    """

    kind: Literal["every_step"] = "every_step"
    step_s: float = Field(gt=0, description="time of a step [s]")
    stall_s: float = Field(default=0.04, ge=0, description="time that a checkpoint adds [s]")

    def cadence(self, known: Known) -> Cadence:
        return Cadence(self.step_s, self.stall_s)


CHECKPOINTS: Registry[type[CheckpointBase]] = Registry(
    "prism_sim.operations.checkpoints", Synchronous, Asynchronous, EveryStep, name_of=by_literal
)
"""Each kind by its name in a study."""

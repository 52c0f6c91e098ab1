"""The contract of a checkpoint policy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from prism_sim.operations.intervals.base import Known
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

"""The contract of a checkpoint policy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

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
    def cadence(self, mttf_s: float) -> Cadence:
        """When a job with this mean time between failures saves."""

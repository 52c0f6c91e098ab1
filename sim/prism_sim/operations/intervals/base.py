"""The contract of a rule for the work between two checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from prism_sim.scenario.base import Closed


@dataclass(frozen=True)
class Known:
    """What a rule may know.

    Attributes
    ----------
    mttf_s : mean time between failures of the job.
    elapsed_s : time since the job's start.
    failures : restarts in that time.
    """

    mttf_s: float
    elapsed_s: float = 0.0
    failures: int = 0


class IntervalBase(Closed):
    """A rule for the work between two checkpoints."""

    @abstractmethod
    def work_s(self, stall_s: float, known: Known) -> float:
        """Work between two checkpoints [s], of which each stalls the job for ``stall_s``."""

"""The contract of a rule for the work between two checkpoints."""

from __future__ import annotations

from abc import abstractmethod

from prism_sim.scenario.base import Closed


class IntervalBase(Closed):
    """A rule for the work between two checkpoints."""

    @abstractmethod
    def work_s(self, stall_s: float, mttf_s: float) -> float:
        """Work between two checkpoints [s], of which each stalls the job for ``stall_s``."""

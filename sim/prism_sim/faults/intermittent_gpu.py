"""A GPU that is slow from time to time: power capping, a neighbour's bursts, retried memory."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.base import SLOW_COMPUTE, SlowFault
from prism_sim.faults.places import OfRank
from prism_sim.faults.target import Target, Undo
from prism_sim.faults.timing import Pulsed


class IntermittentGpu(Pulsed, OfRank, SlowFault):
    """One rank computes at ``factor`` of its speed for ``lasts_s`` in every ``every_s``."""

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["intermittent_gpu"] = "intermittent_gpu"

    def begin(self, target: Target) -> Undo:
        compute = target.compute
        return self.pulsed(target.clock, lambda: compute.slow(self.job, self.rank, self.factor))

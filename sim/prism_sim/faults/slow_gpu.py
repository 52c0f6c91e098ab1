"""A GPU that computes slower than its peers: throttling, a bad clock, a noisy neighbour."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.base import SLOW_COMPUTE, SlowFault
from prism_sim.faults.places import OfRank
from prism_sim.faults.target import Target, Undo


class SlowGpu(OfRank, SlowFault):
    """One rank's forward and backward passes take 1/factor as long.

    Its tensor-parallel group works in lock-step, so the whole group is as slow. A window in
    seconds takes effect with the next pass.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["slow_gpu"] = "slow_gpu"

    def begin(self, target: Target) -> Undo:
        return target.compute.slow(self.job, self.rank, self.factor)

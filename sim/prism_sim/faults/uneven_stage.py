"""A pipeline stage with more work than the others: layers are cut badly, or a head is heavy."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.base import SLOW_COMPUTE, SlowFault
from prism_sim.faults.places import OfStage
from prism_sim.faults.target import Target, Undo, together


class UnevenStage(OfStage, SlowFault):
    """All passes of one pipeline stage take 1/factor as long, on every replica.

    Reference: Lin et al., Understanding stragglers in large model training, OSDI'25: imbalance of
    the last stage is the most frequent cause of slow jobs (39.3 %).
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["uneven_stage"] = "uneven_stage"

    def begin(self, target: Target) -> Undo:
        compute = target.compute
        ranks = compute.workers_of_stage(self.job, self.stage)
        return together(compute.slow(self.job, rank, self.factor) for rank in ranks)

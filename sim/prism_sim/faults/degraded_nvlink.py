"""A GPU whose NVLink has lost lanes: everything inside the server is slow for it."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.base import SLOW_COMPUTE, SlowFault
from prism_sim.faults.places import OfRank
from prism_sim.faults.target import Target, Undo, together


class DegradedNvlink(OfRank, SlowFault):
    """The NVLink of one GPU runs at ``factor`` of its rate, in both directions.

    Rings through the server slow down with it. The tensor-parallel all-reduces inside the passes
    of its group take 1/factor as long; they are a part of the duration of a pass.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE | {"slow_nvlink"}

    kind: Literal["degraded_nvlink"] = "degraded_nvlink"

    def begin(self, target: Target) -> Undo:
        compute = target.compute
        share = compute.nvlink_share(self.job, self.rank)
        speed = 1 / (1 - share + share / self.factor)
        links = compute.nvlink_of(self.job, self.rank)
        return together(
            [
                target.links.slow(links, self.factor),
                compute.slow(self.job, self.rank, speed),
            ]
        )

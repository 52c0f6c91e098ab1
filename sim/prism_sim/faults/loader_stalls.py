"""A data loader that falls behind: a rank waits for its next batch."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import SLOW_COMPUTE
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfRank
from prism_sim.faults.target import Target, Undo


class LoaderStalls(OfRank):
    """One rank waits ``stall_ms`` for its data before the first pass of every ``every`` steps."""

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["loader_stalls"] = "loader_stalls"
    stall_ms: float = Field(ge=1e-6, le=1e9, description="Length of a stall [ms].")
    every: int = Field(
        default=1, ge=1, le=1_000_000, description="Steps from one stall to the next."
    )

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """As long as makes a step as slow, in every step or as rarely as is drawn."""
        stall_ms = max(1e3 * drawing.step_s * (1 / drawing.factor - 1), 1e-6)
        return super().drawn(drawing) | {"stall_ms": stall_ms, "every": drawing.every_steps or 1}

    def magnitude(self, target: Target) -> float:
        step_ns = target.compute.shortest_step_ns(self.job)
        stall_ns = self.stall_ms * 1e6 / self.every
        return min(1.0, stall_ns / (step_ns + stall_ns))

    def begin(self, target: Target) -> Undo:
        over: list[bool] = []
        compute = target.compute

        def stall(step: int) -> None:
            if not over:
                compute.stall(self.job, self.rank, round(self.stall_ms * 1e6))
                following = step + self.every
                compute.at_step_of_rank(self.job, self.rank, following, lambda: stall(following))

        stall(compute.step_of_rank(self.job, self.rank))
        return lambda: over.append(True)

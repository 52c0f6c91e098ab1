"""A fixed interval."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.intervals.base import IntervalBase, Known


class Fixed(IntervalBase):
    """The same work between any two checkpoints."""

    kind: Literal["fixed"] = "fixed"
    every_s: float = Field(gt=0, description="work between two checkpoints [s]")

    def work_s(self, stall_s: float, known: Known) -> float:
        return self.every_s

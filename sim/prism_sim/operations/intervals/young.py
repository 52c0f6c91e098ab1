"""Young's optimum."""

from __future__ import annotations

from typing import Literal

from prism_sim.operations import theory
from prism_sim.operations.intervals.base import IntervalBase, Known


class Young(IntervalBase):
    """Young's optimum for exponential failures."""

    kind: Literal["young"] = "young"

    def work_s(self, stall_s: float, known: Known) -> float:
        return theory.young_s(stall_s, known.mttf_s)

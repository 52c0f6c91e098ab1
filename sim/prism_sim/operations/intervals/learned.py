"""Daly's optimum for the failures that the job has had so far."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations import theory
from prism_sim.operations.intervals.base import IntervalBase, Known


class Learned(IntervalBase):
    """The mean time between failures is estimated at every restart.

    The guess counts as one failure, so the estimate is the posterior mean of a rate under a
    gamma prior.
    """

    kind: Literal["learned"] = "learned"
    guess_s: float = Field(
        default=86_400, gt=0, description="mean time between failures before the first one [s]"
    )

    def work_s(self, stall_s: float, known: Known) -> float:
        learned_s = (self.guess_s + known.elapsed_s) / (1 + known.failures)
        return theory.daly_s(stall_s, learned_s)

"""A GPU that computes slower than its peers: throttling, a bad clock, a noisy neighbour."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.faults.base import FaultBase


class SlowGpu(FaultBase):
    """One rank's forward and backward passes take 1/factor as long."""

    kind: Literal["slow_gpu"] = "slow_gpu"
    job: str = Field(description="The job whose rank is slow, and whose steps a window counts.")
    rank: int = Field(ge=0, description="The slow rank of the job, from 0.")

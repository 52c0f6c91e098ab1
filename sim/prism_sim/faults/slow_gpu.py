"""A GPU that computes slower than its peers: throttling, a bad clock, a noisy neighbour."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import SLOW_COMPUTE, Culprit, SlowFault
from prism_sim.faults.target import Target, Undo
from prism_sim.scenario.base import Remarks
from prism_sim.scenario.setting import Setting


class SlowGpu(SlowFault):
    """One rank's forward and backward passes take 1/factor as long.

    Its tensor-parallel group works in lock-step, so the whole group is as slow. A window in
    seconds takes effect with the next pass.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["slow_gpu"] = "slow_gpu"
    job: str = Field(description="The job whose rank is slow, and whose steps a window counts.")
    rank: int = Field(ge=0, le=1_000_000_000, description="The slow rank of the job, from 0.")

    def culprit(self, target: Target) -> Culprit:
        address = target.compute.address_of(self.job, self.rank)
        return Culprit("address", address, self.job, self.rank)

    def begin(self, target: Target) -> Undo:
        return target.compute.slow(self.job, self.rank, self.factor)

    def jobs_affected(self, target: Target) -> list[str]:
        return [self.job]

    def at_step(self, target: Target, step: int, call: Callable[[], None]) -> None:
        target.compute.at_step_of_rank(self.job, self.rank, step, call)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        yield from self.rank_remarks(setting, self.rank)

"""A GPU that computes slower than its peers: throttling, a bad clock, a noisy neighbour."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from prism_sim.faults.base import Culprit, FaultBase
from prism_sim.scenario.base import Remarks

if TYPE_CHECKING:
    from prism_sim.loading.scenario import Scenario
    from prism_sim.training.placed import Works
    from prism_sim.world import World


class SlowGpu(FaultBase):
    """One rank's forward and backward passes take 1/factor as long.

    Its tensor-parallel group moves in lock-step, so the whole group is as slow. A window in
    seconds takes hold with the next pass that begins.
    """

    kind: Literal["slow_gpu"] = "slow_gpu"
    job: str = Field(description="The job whose rank is slow, and whose steps a window counts.")
    rank: int = Field(ge=0, le=1_000_000_000, description="The slow rank of the job, from 0.")

    def culprit(self, world: World) -> Culprit:
        address = world.jobs[self.job].address_of(self.rank)
        return Culprit("address", address, self.job, self.rank)

    def begin(self, world: World) -> None:
        self._worker(world).slowdowns.append(self.factor)

    def end(self, world: World) -> None:
        self._worker(world).slowdowns.remove(self.factor)

    def jobs_hit(self, world: World) -> list[str]:
        return [self.job]

    def at_step(self, world: World, step: int, call: Callable[[], None]) -> None:
        self._worker(world).at_step(step, call)

    def _worker(self, world: World) -> Works:
        worker: Works = world.jobs[self.job].worker_of(self.rank)
        return worker

    def remarks(self, scenario: Scenario) -> Remarks:
        yield from super().remarks(scenario)
        yield from self.rank_remarks(scenario, self.rank)

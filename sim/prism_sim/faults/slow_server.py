"""A server whose CPUs are busy with something else, so that all its GPUs wait for them."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.base import SLOW_COMPUTE, SlowFault
from prism_sim.faults.places import OfServer
from prism_sim.faults.target import Target, Undo, together


class SlowServer(OfServer, SlowFault):
    """All passes of the ranks on one server take 1/factor as long.

    Kernels are started late when other processes take the CPUs: the GPUs are healthy, and idle in
    between.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["slow_server"] = "slow_server"

    def begin(self, target: Target) -> Undo:
        compute = target.compute
        return together(
            compute.slow(job, rank, self.factor) for job, rank in compute.workers_on(self.server)
        )

    def jobs_affected(self, target: Target) -> list[str]:
        return sorted({job for job, _ in target.compute.workers_on(self.server)})

"""A GPU no longer answers on the bus (Xid 79). A third of the 148 faulty GPUs of the source."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, cuda_fails
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class GpuLost(FailureKind):
    """A GPU no longer answers on the bus."""

    name: ClassVar[str] = "gpu_lost"
    about: ClassVar[str] = "A GPU no longer answers on the bus"
    symptom: ClassVar[str] = "cuda_failure_with_xid"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 49
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})
    repeats_as: ClassVar[str | None] = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        kernel, rank = scene.tools.kernel, scene.rank
        text = "GPU has fallen off the bus."
        scene.kernel_writes(
            scene.node, scene.when_ns, kernel.xid(rank, scene.when_ns, 79, text), "indicator"
        )
        ranks_end(scene, {rank: cuda_fails(scene, rank, "unspecified launch failure")})

"""A link between GPUs of a server fails (Xid 74)."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind, cuda_fails
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class NvlinkError(FailureKind):
    """A link between GPUs of a server fails."""

    name: ClassVar[str] = "nvlink_error"
    about: ClassVar[str] = "A link between GPUs of a server fails"
    symptom: ClassVar[str] = "nvlink_failure"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 54
    source: ClassVar[str] = ACME
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        text = "NVLink: fatal error detected on link 7(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
        for peer in self.ends(scene):
            output = kernel.xid(peer, when_ns, 74, text, own=False)
            scene.kernel_writes(scene.node, when_ns, output, "indicator")
        ranks_end(scene, {rank: cuda_fails(scene, rank, "uncorrectable NVLink error detected")})

    def ends(self, scene: Scene) -> list[int]:
        """The ranks at both ends of the link."""
        others = [rank for rank in scene.job.ranks_of[scene.node] if rank != scene.rank]
        return [scene.rank, *others[:1]]

"""The processor of a GPU that serves the driver stops (Xid 119): calls do not return."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_hang
from prism_sim.logs.text import SECOND_NS


class GspTimeout(FailureKind):
    """The processor of a GPU that serves the driver stops."""

    name: ClassVar[str] = "gsp_timeout"
    about: ClassVar[str] = "The processor of a GPU that serves the driver stops"
    symptom: ClassVar[str] = "gpu_hangs_with_xid"
    category: ClassVar[Category] = "hardware"
    stage: ClassVar[Stage] = "hang"
    count: ClassVar[float] = 17
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"hang"})

    def unfold(self, scene: Scene) -> None:
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        text = "Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76"
        after_ns = when_ns + 45 * SECOND_NS
        scene.kernel_writes(
            scene.node, after_ns, kernel.xid(rank, after_ns, 119, text), "indicator"
        )
        ranks_hang(scene, [rank], prints=False)

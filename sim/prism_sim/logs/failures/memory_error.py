"""The main memory or a processor of a node has an error.

The rank ends with SIGBUS (Llama 3: 2 + 2).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import End, ranks_end


class MemoryRaised(FailureKind):
    """The main memory or a processor of a node has an error."""

    name: ClassVar[str] = "memory_error"
    about: ClassVar[str] = "The main memory or a processor of a node has an error"
    symptom: ClassVar[str] = "machine_check"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 4
    source: ClassVar[str] = LLAMA
    held_out: ClassVar[bool] = True

    def unfold(self, scene: Scene) -> None:
        kernel, node, when_ns = scene.tools.kernel, scene.node, scene.when_ns
        pid = scene.job.pid(scene.rank)
        output = kernel.write(
            "machine_check",
            node,
            when_ns,
            "mce: [Hardware Error]: Machine check events logged",
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#2_Chan#1_DIMM#0",
            f"Memory failure: 0x8a41f2: Killing python3:{pid} due to hardware memory corruption",
        )
        scene.kernel_writes(node, when_ns, output, "indicator")
        scene.end_rank(scene.rank, when_ns)
        ranks_end(scene, {scene.rank: End(when_ns + scene.seconds(0.01, 0.1), -7)}, "indicator")

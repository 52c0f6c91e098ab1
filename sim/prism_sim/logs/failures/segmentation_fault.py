"""A library of the framework accesses a wrong address on the host (Llama 3: software bug 54)."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import End, ranks_end
from prism_sim.logs.text import message


class SegmentationFault(FailureKind):
    """A library of the framework accesses a wrong address on the host."""

    name: ClassVar[str] = "segmentation_fault"
    about: ClassVar[str] = "A library of the framework accesses a wrong address on the host"
    symptom: ClassVar[str] = "segmentation_fault"
    category: ClassVar[Category] = "framework"
    count: ClassVar[float] = 54
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        kernel, node, rank, when_ns = scene.tools.kernel, scene.node, scene.rank, scene.when_ns
        pid = scene.job.pid(rank)
        text = (
            f"python3[{pid}]: segfault at 18 ip 00007f2b6c41d0a4 sp 00007ffd2a8f1c30 error 4 in "
            "libtorch_cpu.so[7f2b6a000000+c4e1000]"
        )
        output = kernel.write("segfault", node, when_ns, text)
        scene.kernel_writes(node, when_ns, output, "indicator")
        fatal = message("python.fatal", "Fatal Python error: Segmentation fault", "")
        scene.rank_writes(rank, when_ns, fatal, "indicator")
        scene.end_rank(rank, when_ns + 1_000_000)
        ranks_end(scene, {rank: End(when_ns + scene.seconds(0.1, 3.0), -11)}, "indicator")

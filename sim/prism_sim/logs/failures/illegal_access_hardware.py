"""A faulty GPU makes a kernel access a wrong address: the lines are those of a wrong program."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, cuda_fails
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class IllegalAccessHardware(FailureKind):
    """A faulty GPU makes a kernel access a wrong address."""

    name: ClassVar[str] = "illegal_access_hardware"
    about: ClassVar[str] = "A faulty GPU makes a kernel access a wrong address"
    symptom: ClassVar[str] = "illegal_memory_access"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 49
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})
    ratio: ClassVar[float | None] = 21  # ByteRobust, Table 2: infrastructure
    repeats_as: ClassVar[str | None] = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        error = "an illegal memory access was encountered"
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        text = "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f3a_5c200000"
        scene.kernel_writes(scene.node, when_ns, kernel.xid(rank, when_ns, 31, text), "indicator")
        ranks_end(scene, {rank: cuda_fails(scene, rank, error)})

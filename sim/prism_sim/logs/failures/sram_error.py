"""The on-chip memory of a GPU has errors that it cannot correct (Xid 95)."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, cuda_fails
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class SramError(FailureKind):
    """The on-chip memory of a GPU has errors that it cannot correct."""

    name: ClassVar[str] = "sram_error"
    about: ClassVar[str] = "The on-chip memory of a GPU has errors that it cannot correct"
    symptom: ClassVar[str] = "uncorrectable_ecc"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 19
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})
    held_out: ClassVar[bool] = True
    repeats_as: ClassVar[str | None] = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        text = "Uncontained ECC error on SRAM. RST: No, D-RST: No"
        scene.kernel_writes(scene.node, when_ns, kernel.xid(rank, when_ns, 95, text), "indicator")
        ranks_end(scene, {rank: cuda_fails(scene, rank, "uncorrectable ECC error encountered")})

"""The memory of a GPU has errors that it cannot correct (Xid 48 and 63).

HBM3 72 in Llama 3, ECC 12 in Acme.
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, cuda_fails
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class HbmError(FailureKind):
    """The memory of a GPU has errors that it cannot correct."""

    name: ClassVar[str] = "hbm_error"
    about: ClassVar[str] = "The memory of a GPU has errors that it cannot correct"
    symptom: ClassVar[str] = "uncorrectable_ecc"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 84
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})
    repeats_as: ClassVar[str | None] = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        for number, text in (
            (48, "DBE (double bit error) ECC error"),
            (63, "Row Remapper: New row marked for remapping, reset gpu to activate."),
        ):
            scene.kernel_writes(
                scene.node, when_ns, kernel.xid(rank, when_ns, number, text), "indicator"
            )
        text = "Ch 00000008, preemptive channel removal"
        after_ns = when_ns + scene.seconds(0.001, 0.05)
        scene.kernel_writes(scene.node, after_ns, kernel.xid(rank, after_ns, 45, text), "cascade")
        ranks_end(scene, {rank: cuda_fails(scene, rank, "uncorrectable ECC error encountered")})

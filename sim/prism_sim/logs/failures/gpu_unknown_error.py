"""A GPU fails without a report of the driver, as in BLOOM on 2022-03-21. A third of the source's
148.
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, cuda_fails
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class GpuUnknownError(FailureKind):
    """A GPU fails without a report of the driver."""

    name: ClassVar[str] = "gpu_unknown_error"
    about: ClassVar[str] = "A GPU fails without a report of the driver"
    symptom: ClassVar[str] = "cuda_unknown_error"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 49
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})
    repeats_as: ClassVar[str | None] = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        ranks_end(scene, {scene.rank: cuda_fails(scene, scene.rank, "unknown error")})

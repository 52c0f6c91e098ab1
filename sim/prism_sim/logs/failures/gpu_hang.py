"""A kernel of one GPU never ends: its last completed collective is behind those of all others."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import BYTEROBUST, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_hang


class GpuHang(FailureKind):
    """A kernel of one GPU never ends."""

    name: ClassVar[str] = "gpu_hang"
    about: ClassVar[str] = "A kernel of one GPU never ends"
    symptom: ClassVar[str] = "hang"
    category: ClassVar[Category] = "hardware"
    stage: ClassVar[Stage] = "hang"
    count: ClassVar[float] = 21
    source: ClassVar[str] = BYTEROBUST
    faults: ClassVar[frozenset[str]] = frozenset({"hang"})
    ratio: ClassVar[float | None] = 14  # two thirds of 21, ByteRobust, Table 2

    def unfold(self, scene: Scene) -> None:
        ranks_hang(scene, [scene.rank], prints=True, behind=2)

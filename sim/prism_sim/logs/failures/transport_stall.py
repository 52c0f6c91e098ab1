"""Transfers of one node stop without an error.

Several of its ranks are behind (NCCL watchdog 7).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_hang


class TransportStall(FailureKind):
    """Transfers of one node stop without an error."""

    name: ClassVar[str] = "transport_stall"
    about: ClassVar[str] = "Transfers of one node stop without an error"
    symptom: ClassVar[str] = "hang"
    category: ClassVar[Category] = "hardware"
    stage: ClassVar[Stage] = "hang"
    count: ClassVar[float] = 7
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"hang", "stopped_nic"})
    ratio: ClassVar[float | None] = 7  # one third of 21, ByteRobust, Table 2

    def unfold(self, scene: Scene) -> None:
        scene.ranks = [*scene.job.ranks_of[scene.node]][: max(1, scene.job.gpus // 2)]
        scene.rank = scene.ranks[0]
        ranks_hang(scene, scene.ranks, prints=True)

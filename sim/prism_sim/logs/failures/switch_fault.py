"""A switch fails, and several nodes behind it lose one rail: half of the 12 network errors."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import connection_fails, ranks_end


class SwitchFault(FailureKind):
    """A switch fails, and several nodes behind it."""

    name: ClassVar[str] = "switch_fault"
    about: ClassVar[str] = "A switch fails, and several nodes behind it"
    symptom: ClassVar[str] = "many_connections_lost"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 6
    source: ClassVar[str] = ACME
    held_out: ClassVar[bool] = True

    def unfold(self, scene: Scene) -> None:
        count = len(scene.job.nodes)
        behind = [(scene.node + step) % count for step in range(max(1, count // 3))]
        scene.nodes = sorted(set(behind))
        local = scene.job.homes[scene.rank][1]
        scene.ranks = [
            rank
            for node in scene.nodes
            for rank in scene.job.ranks_of[node]
            if scene.job.homes[rank][1] == local
        ]
        peers = {rank: (scene.job.node_of(rank) + 1) % count for rank in scene.ranks}
        ranks_end(scene, connection_fails(scene, peers, "indicator"))

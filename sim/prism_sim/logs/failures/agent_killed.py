"""The agent of a node ends, and its ranks with it: only Slurm reports it."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import UNPUBLISHED, Category, FailureKind
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import KILLED, ranks_hang


class AgentKilled(FailureKind):
    """The agent of a node ends, and its ranks with it."""

    name: ClassVar[str] = "agent_killed"
    about: ClassVar[str] = "The agent of a node ends, and its ranks with it"
    symptom: ClassVar[str] = "agent_killed"
    category: ClassVar[Category] = "platform"
    count: ClassVar[float] = 8
    source: ClassVar[str] = UNPUBLISHED
    held_out: ClassVar[bool] = True

    def unfold(self, scene: Scene) -> None:
        node, when_ns, slurm = scene.node, scene.when_ns, scene.tools.slurm
        scene.ranks = [*scene.job.ranks_of[node]]
        for rank in scene.ranks:
            scene.end_rank(rank, when_ns)
        scene.ended_ns[node] = when_ns
        at_ns = when_ns + scene.seconds(0.1, 0.5)
        scene.slurm_writes(at_ns, slurm.ended(node, KILLED), "indicator")
        ranks_hang(scene, scene.ranks, prints=False)

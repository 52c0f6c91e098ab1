"""A node cannot reach the first node when the job starts (Acme: network error 12)."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind, Stage
from prism_sim.logs.scene import Ending, Scene
from prism_sim.logs.spread import FAILED, job_is_cancelled
from prism_sim.logs.text import SECOND_NS


class RendezvousFailed(FailureKind):
    """A node cannot reach the first node when the job starts."""

    name: ClassVar[str] = "rendezvous_failed"
    about: ClassVar[str] = "A node cannot reach the first node when the job starts"
    symptom: ClassVar[str] = "rendezvous_failed"
    category: ClassVar[Category] = "platform"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 12
    source: ClassVar[str] = ACME
    launched: ClassVar[float] = 0.1
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def unfold(self, scene: Scene) -> None:
        node, at_ns = scene.node, scene.when_ns + 60 * SECOND_NS
        output = scene.tools.torchrun.unreachable(node, at_ns)
        scene.agent_writes(node, at_ns, output, "indicator")
        for rank in range(scene.job.ranks):
            scene.silence(rank, scene.job.times.begin_ns)
        scene.ranks = [*scene.job.ranks_of[node]]
        scene.ended_ns[node] = at_ns + scene.seconds(0.1, 0.5)
        scene.slurm_writes(scene.ended_ns[node], scene.tools.slurm.ended(node, FAILED), "cascade")
        job_is_cancelled(scene, scene.ended_ns[node] + SECOND_NS, "", Ending("FAILED", "1:0"))

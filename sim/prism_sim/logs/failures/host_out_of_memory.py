"""The processes of a node need more memory than it has.

The kernel ends a rank (Acme: out of memory 14).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind
from prism_sim.logs.scene import Ending, Scene
from prism_sim.logs.spread import KILLED, End, ranks_end


class HostOutOfMemory(FailureKind):
    """The processes of a node need more memory than it has."""

    name: ClassVar[str] = "host_out_of_memory"
    about: ClassVar[str] = "The processes of a node need more memory than it has"
    symptom: ClassVar[str] = "host_out_of_memory"
    category: ClassVar[Category] = "user"
    count: ClassVar[float] = 14
    source: ClassVar[str] = ACME
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        kernel, node, rank, when_ns = scene.tools.kernel, scene.node, scene.rank, scene.when_ns
        output = kernel.killed(node, when_ns, scene.job.pid(rank), cgroup=True)
        scene.kernel_writes(node, when_ns, output, "indicator")
        scene.end_rank(rank, when_ns)
        ranks_end(scene, {rank: End(when_ns + 5_000_000, KILLED)}, "indicator")
        at_ns = scene.ended_ns[node] + scene.seconds(0.1, 0.4)
        scene.slurm_writes(at_ns, scene.tools.slurm.out_of_memory(node), "indicator")
        scene.ending = Ending("OUT_OF_MEMORY", "0:125")

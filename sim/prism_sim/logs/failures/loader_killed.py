"""The kernel ends a worker process of a data loader (Acme: dataloader killed 6)."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind, raises
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class LoaderKilled(FailureKind):
    """The kernel ends a worker process of a data loader."""

    name: ClassVar[str] = "loader_killed"
    about: ClassVar[str] = "The kernel ends a worker process of a data loader"
    symptom: ClassVar[str] = "loader_killed"
    category: ClassVar[Category] = "user"
    count: ClassVar[float] = 6
    source: ClassVar[str] = ACME

    def unfold(self, scene: Scene) -> None:
        kernel, node, rank, when_ns = scene.tools.kernel, scene.node, scene.rank, scene.when_ns
        pid = scene.job.pid(rank) + 4000
        output = kernel.killed(node, when_ns, pid, cgroup=True)
        scene.kernel_writes(node, when_ns, output, "indicator")
        text = f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Killed. "
        ranks_end(scene, {rank: raises(scene, rank, "loader_killed", text)})

"""The file system of a node does not answer.

Its rank sleeps in the kernel (Acme: S3 storage 10).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_hang
from prism_sim.logs.text import SECOND_NS


class StorageHang(FailureKind):
    """The file system of a node does not answer."""

    name: ClassVar[str] = "storage_hang"
    about: ClassVar[str] = "The file system of a node does not answer"
    symptom: ClassVar[str] = "task_blocked"
    category: ClassVar[Category] = "platform"
    stage: ClassVar[Stage] = "hang"
    count: ClassVar[float] = 10
    source: ClassVar[str] = ACME
    faults: ClassVar[frozenset[str]] = frozenset({"hang"})
    phases: ClassVar[tuple[str, ...]] = ("checkpoint", "iteration")

    def unfold(self, scene: Scene) -> None:
        kernel, node, rank = scene.tools.kernel, scene.node, scene.rank
        at_ns = scene.when_ns + 122 * SECOND_NS
        output = kernel.write(
            "blocked",
            node,
            at_ns,
            f"INFO: task python3:{scene.job.pid(rank)} blocked for more than 120 seconds.",
            '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
            "lustre: ckpt-OST0007-osc-ffff9c1e: Connection to ckpt-OST0007 (at "
            f"{node + 1}@o2ib) was "
            "lost; in progress operations using this service will wait for recovery to complete",
        )
        scene.kernel_writes(node, at_ns, output, "indicator")
        ranks_hang(scene, [rank], prints=True)

"""The kernel of a node stops, with a last message.

Power 3, chassis 2, IO board 2 and more of Llama 3.
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import node_dies


class KernelPanic(FailureKind):
    """The kernel of a node stops."""

    name: ClassVar[str] = "kernel_panic"
    about: ClassVar[str] = "The kernel of a node stops"
    symptom: ClassVar[str] = "node_lost"
    category: ClassVar[Category] = "platform"
    count: ClassVar[float] = 8
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        kernel, node, when_ns = scene.tools.kernel, scene.node, scene.when_ns
        scene.ranks = [*scene.job.ranks_of[node]]
        output = kernel.write(
            "panic",
            node,
            when_ns - 2_000_000,
            "watchdog: BUG: soft lockup - CPU#41 stuck for 26s! [kworker/41:2:10411]",
            "Kernel panic - not syncing: softlockup: hung tasks",
        )
        scene.kernel_writes(node, when_ns - 2_000_000, output, "indicator")
        node_dies(scene)

"""A cable or a port of a switch fails.

Only retries that are exhausted show it, at the nodes behind it.
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import connection_fails, ranks_end


class CableFault(FailureKind):
    """A cable or a port of a switch fails."""

    name: ClassVar[str] = "cable_fault"
    about: ClassVar[str] = "A cable or a port of a switch fails"
    symptom: ClassVar[str] = "connection_lost"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 35
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"stopped_nic"})

    def unfold(self, scene: Scene) -> None:
        peer = (scene.node + 1) % len(scene.job.nodes)
        lost = connection_fails(scene, {scene.rank: peer}, "indicator")
        ranks_end(scene, lost)

"""A node loses its power: its files end, and nothing on it reports why (Acme: node failure 16)."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import node_dies


class NodePower(FailureKind):
    """A node loses its power."""

    name: ClassVar[str] = "node_power"
    about: ClassVar[str] = "A node loses its power"
    symptom: ClassVar[str] = "node_lost"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 16
    source: ClassVar[str] = ACME
    faults: ClassVar[frozenset[str]] = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        scene.ranks = [*scene.job.ranks_of[scene.node]]
        node_dies(scene)

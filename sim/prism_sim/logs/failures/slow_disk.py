"""The storage of training data is slow: loaders of all ranks complain."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.text import SECOND_NS, message


class SlowDisk(FailureKind):
    """The storage of training data is slow."""

    name: ClassVar[str] = "slow_disk"
    about: ClassVar[str] = "The storage of training data is slow"
    symptom: ClassVar[str] = "slow_loading"
    category: ClassVar[Category] = "platform"
    stage: ClassVar[Stage] = "slow"
    count: ClassVar[float] = 10
    source: ClassVar[str] = ACME
    faults: ClassVar[frozenset[str]] = frozenset({"slow_storage", "loader_stalls"})

    def unfold(self, scene: Scene) -> None:
        scene.placeless()
        rank, job = scene.rank, scene.job
        for number in range(3):
            at_ns = scene.when_ns + (number * 30 + 1) * SECOND_NS
            text = (
                f"WARNING:root:batch of rank {rank} was late by {900 + 37 * number} ms "
                "(data loader)"
            )
            scene.rank_writes(rank, at_ns, message("loader.late", text), "indicator")
            rank = (rank + job.tp) % job.ranks

"""One rank takes another branch, and calls other collectives.

Its time-out names another operation (Acme: NCCL timeout 6).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import abort, ranks_hang
from prism_sim.logs.text import SECOND_NS


class CollectiveMismatch(FailureKind):
    """One rank takes another branch, and calls other collectives."""

    name: ClassVar[str] = "collective_mismatch"
    about: ClassVar[str] = "One rank takes another branch, and calls other collectives"
    symptom: ClassVar[str] = "collective_mismatch"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "hang"
    count: ClassVar[float] = 3
    source: ClassVar[str] = ACME

    def unfold(self, scene: Scene) -> None:
        c10d, rank = scene.tools.c10d, scene.rank
        waits = scene.waits._replace(kind="BROADCAST", elements=1)
        limit_ns = scene.when_ns + round(scene.job.timeout_s * SECOND_NS)
        at_ns = limit_ns + scene.seconds(0.0, 0.1)
        ran_ms = round(scene.job.timeout_s * 1000) + 31
        reason = c10d.waited(rank, waits, ran_ms)
        scene.rank_writes(rank, at_ns, c10d.timeout(rank, at_ns, reason), "indicator")
        abort(scene, rank, at_ns + scene.seconds(0.2, 0.5), reason, "cascade")
        ranks_hang(scene, [rank], prints=False)

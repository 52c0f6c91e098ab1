"""Worker processes of a rank's data loader wait for each other.

BLOOM on 2022-04-30, in an evaluation.
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import BYTEROBUST, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_hang


class LoaderDeadlock(FailureKind):
    """Worker processes of a rank's data loader wait for each other."""

    name: ClassVar[str] = "loader_deadlock"
    about: ClassVar[str] = "Worker processes of a rank's data loader wait for each other"
    symptom: ClassVar[str] = "hang"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "hang"
    count: ClassVar[float] = 5
    source: ClassVar[str] = BYTEROBUST
    faults: ClassVar[frozenset[str]] = frozenset({"hang"})
    phases: ClassVar[tuple[str, ...]] = ("iteration", "evaluation")
    ratio: ClassVar[float | None] = 5  # ByteRobust, Table 2

    def unfold(self, scene: Scene) -> None:
        ranks_hang(scene, [scene.rank], prints=True)

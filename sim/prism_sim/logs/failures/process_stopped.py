"""A debugger or a signal stopped the process of a rank: it is the only one that prints nothing."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import UNPUBLISHED, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_hang


class ProcessStopped(FailureKind):
    """A signal stopped the process of a rank."""

    name: ClassVar[str] = "process_stopped"
    about: ClassVar[str] = "A signal stopped the process of a rank"
    symptom: ClassVar[str] = "hang_without_state"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "hang"
    count: ClassVar[float] = 2
    source: ClassVar[str] = UNPUBLISHED
    faults: ClassVar[frozenset[str]] = frozenset({"hang"})

    def unfold(self, scene: Scene) -> None:
        ranks_hang(scene, [scene.rank], prints=False)

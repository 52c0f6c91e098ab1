"""A thread of one rank holds the interpreter.

The monitor of its watchdog says so (Acme: NCCL timeout 6).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_hang
from prism_sim.logs.text import SECOND_NS


class LockHeld(FailureKind):
    """A thread of one rank holds the interpreter."""

    name: ClassVar[str] = "lock_held"
    about: ClassVar[str] = "A thread of one rank holds the interpreter"
    symptom: ClassVar[str] = "interpreter_held"
    category: ClassVar[Category] = "framework"
    stage: ClassVar[Stage] = "hang"
    count: ClassVar[float] = 3
    source: ClassVar[str] = ACME
    held_out: ClassVar[bool] = True

    def unfold(self, scene: Scene) -> None:
        c10d, rank = scene.tools.c10d, scene.rank
        at_ns = scene.when_ns + 480 * SECOND_NS
        if at_ns < scene.when_ns + round(scene.job.timeout_s * SECOND_NS):
            scene.rank_writes(rank, at_ns, c10d.stuck(rank, at_ns, 480), "indicator")
        ranks_hang(scene, [rank], prints=False)

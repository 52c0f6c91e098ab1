"""A GPU is slow without any line, as BLOOM's on 2022-04-28.

Only the times of iterations show it.
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import UNPUBLISHED, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene


class SlowGpu(FailureKind):
    """A GPU is slow without any line."""

    name: ClassVar[str] = "slow_gpu"
    about: ClassVar[str] = "A GPU is slow without any line"
    symptom: ClassVar[str] = "slow_without_lines"
    category: ClassVar[Category] = "hardware"
    stage: ClassVar[Stage] = "slow"
    count: ClassVar[float] = 6
    source: ClassVar[str] = UNPUBLISHED
    faults: ClassVar[frozenset[str]] = frozenset({"slow_gpu", "intermittent_gpu", "slow_server"})

    def unfold(self, scene: Scene) -> None:
        """Only the times of iterations show it."""

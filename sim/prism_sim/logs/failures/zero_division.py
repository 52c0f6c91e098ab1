"""A count in the framework is zero."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class ZeroDivision(Raises):
    """A count in the framework is zero."""

    name: ClassVar[str] = "zero_division"
    about: ClassVar[str] = "A count in the framework is zero"
    symptom: ClassVar[str] = "zero_division"
    category: ClassVar[Category] = "framework"
    count: ClassVar[float] = 5
    source: ClassVar[str] = ACME
    phases: ClassVar[tuple[str, ...]] = ("evaluation", "iteration")
    held_out: ClassVar[bool] = True

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "ZeroDivisionError: float division by zero"
        return text, script(scene, "metrics.py", 33, "perplexity", "return total / tokens")

"""A value in the data is not allowed."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class ValueRaised(Raises):
    """A value in the data is not allowed."""

    name: ClassVar[str] = "value_error"
    about: ClassVar[str] = "A value in the data is not allowed"
    symptom: ClassVar[str] = "value_error"
    category: ClassVar[Category] = "framework"
    count: ClassVar[float] = 33
    source: ClassVar[str] = ACME

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "ValueError: sequence length 4097 is longer than the maximum 4096"
        return text, script(scene, "data/pack.py", 72, "pack", "raise ValueError(text)")

"""A name in the script is not defined."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class NameRaised(Raises):
    """A name in the script is not defined."""

    name: ClassVar[str] = "name_error"
    about: ClassVar[str] = "A name in the script is not defined"
    symptom: ClassVar[str] = "name_error"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 18
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.3
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "NameError: name 'rotary_dim' is not defined"
        return text, script(
            scene,
            "model/layers.py",
            141,
            "__init__",
            "self.rope = Rope(rotary_dim)",
        )

"""The script is not valid Python."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class SyntaxRaised(Raises):
    """The script is not valid Python."""

    name: ClassVar[str] = "syntax_error"
    about: ClassVar[str] = "The script is not valid Python"
    symptom: ClassVar[str] = "syntax_error"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 10
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.06
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "SyntaxError: invalid syntax"
        return text, script(
            scene,
            "data/mixture.py",
            63,
            "<module>",
            "weights = {**base, code=0.2}",
        )

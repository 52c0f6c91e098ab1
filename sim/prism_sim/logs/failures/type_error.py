"""A function of the script is called wrongly."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class TypeRaised(Raises):
    """A function of the script is called wrongly."""

    name: ClassVar[str] = "type_error"
    about: ClassVar[str] = "A function of the script is called wrongly"
    symptom: ClassVar[str] = "type_error"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 620
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.6
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "TypeError: build_dataset() got an unexpected keyword argument 'seed'"
        return text, script(
            scene,
            "data/build.py",
            37,
            "build_all",
            "train = build_dataset(path, seed=seed)",
        )

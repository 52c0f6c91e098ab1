"""The data set cannot be built."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class DatasetLoadingError(Raises):
    """The data set cannot be built."""

    name: ClassVar[str] = "dataset_loading_error"
    about: ClassVar[str] = "The data set cannot be built"
    symptom: ClassVar[str] = "dataset_loading"
    category: ClassVar[Category] = "framework"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 5
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.75
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "ValueError: no samples remain after filtering: requested 1048576, found 0"
        return text, script(
            scene,
            "data/build.py",
            90,
            "build_all",
            "raise ValueError(text)",
        )

"""A file of the user does not exist."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class MissingFile(Raises):
    """A file of the user does not exist."""

    name: ClassVar[str] = "missing_file"
    about: ClassVar[str] = "A file of the user does not exist"
    symptom: ClassVar[str] = "missing_file"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 568
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.7
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "FileNotFoundError: [Errno 2] No such file or directory: "
            f"'/data/{scene.job.user}/tokens_0012.idx'"
        )
        return text, script(
            scene,
            "data/indexed.py",
            301,
            "__init__",
            "with open(path, 'rb') as stream:",
        )

"""The user may not read a file."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class PermissionDenied(Raises):
    """The user may not read a file."""

    name: ClassVar[str] = "permission_denied"
    about: ClassVar[str] = "The user may not read a file"
    symptom: ClassVar[str] = "permission_denied"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 7
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.5
    phases: ClassVar[tuple[str, ...]] = ("launch",)
    held_out: ClassVar[bool] = True

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "PermissionError: [Errno 13] Permission denied: '/data/shared/tokenizer.model'"
        return text, script(
            scene,
            "data/tokenizer.py",
            29,
            "load",
            "return open(path, 'rb').read()",
        )

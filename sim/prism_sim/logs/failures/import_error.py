"""A package is missing or has a wrong version."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class ImportRaised(Raises):
    """A package is missing or has a wrong version."""

    name: ClassVar[str] = "import_error"
    about: ClassVar[str] = "A package is missing or has a wrong version"
    symptom: ClassVar[str] = "import_error"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 111
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.08
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "ImportError: cannot import name 'flash_attn_varlen_func' from 'flash_attn'"
        return text, script(
            scene,
            "model/attention.py",
            14,
            "<module>",
            "from flash_attn import flash_attn_varlen_func",
        )

"""The configuration lacks a key."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class KeyRaised(Raises):
    """The configuration lacks a key."""

    name: ClassVar[str] = "key_error"
    about: ClassVar[str] = "The configuration lacks a key"
    symptom: ClassVar[str] = "key_error"
    category: ClassVar[Category] = "user"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 260
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.4
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "KeyError: 'lr_warmup_tokens'"
        return text, script(
            scene,
            "config.py",
            52,
            "schedule",
            "warmup = config['lr_warmup_tokens']",
        )

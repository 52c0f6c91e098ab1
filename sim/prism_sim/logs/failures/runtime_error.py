"""Tensors have wrong shapes."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class RuntimeRaised(Raises):
    """Tensors have wrong shapes."""

    name: ClassVar[str] = "runtime_error"
    about: ClassVar[str] = "Tensors have wrong shapes"
    symptom: ClassVar[str] = "runtime_error"
    category: ClassVar[Category] = "framework"
    count: ClassVar[float] = 65
    source: ClassVar[str] = ACME

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "RuntimeError: The size of tensor a (4096) must match the size of tensor b "
            "(4095) at non-singleton dimension 1"
        )
        return text, script(scene, "model/loss.py", 47, "forward", "loss = losses * mask")

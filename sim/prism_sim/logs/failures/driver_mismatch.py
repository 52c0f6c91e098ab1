"""The driver of one node is too old."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, Raises, Stage, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class DriverMismatch(Raises):
    """The driver of one node is too old."""

    name: ClassVar[str] = "driver_mismatch"
    about: ClassVar[str] = "The driver of one node is too old"
    symptom: ClassVar[str] = "no_gpu"
    category: ClassVar[Category] = "platform"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 2
    source: ClassVar[str] = LLAMA
    launched: ClassVar[float] = 0.2
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "RuntimeError: The NVIDIA driver on your system is too old (found version "
            "11040). Please update your GPU driver."
        )
        return text, library(
            "torch/cuda/__init__.py",
            319,
            "_lazy_init",
            "torch._C._cuda_init()",
        )

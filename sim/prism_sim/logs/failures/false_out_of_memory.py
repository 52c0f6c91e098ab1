"""A GPU with errors has no memory for the next job."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import BLOOM, Category, Raises, Stage, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class FalseOutOfMemory(Raises):
    """A GPU with errors has no memory for the next job."""

    name: ClassVar[str] = "false_out_of_memory"
    about: ClassVar[str] = "A GPU with errors has no memory for the next job"
    symptom: ClassVar[str] = "out_of_memory_at_launch"
    category: ClassVar[Category] = "hardware"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 1
    source: ClassVar[str] = BLOOM
    launched: ClassVar[float] = 0.25
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be "
            "asynchronously reported at some other API call, so the stacktrace below "
            "might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
        )
        return text, library(
            "torch/cuda/__init__.py",
            399,
            "set_device",
            "torch._C._cuda_setDevice(device)",
        )

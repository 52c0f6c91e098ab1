"""A GPU computes wrong numbers."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, Raises, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class NanHardware(Raises):
    """A GPU computes wrong numbers."""

    name: ClassVar[str] = "nan_hardware"
    about: ClassVar[str] = "A GPU computes wrong numbers"
    symptom: ClassVar[str] = "nan"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 6
    source: ClassVar[str] = LLAMA
    ratio: ClassVar[float | None] = 3  # ByteRobust, Table 2

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            f"AssertionError: Rank {scene.rank}: found NaN in local grad norm in backward "
            "pass before data-parallel communication collective. Device: "
            f"{scene.job.homes[scene.rank][1]}, node: {scene.job.nodes[scene.node]}"
        )
        return text, library(
            "megatron/core/distributed/param_and_grad_buffer.py",
            214,
            "check_grads",
            "assert not norm.isnan(), (",
        )

"""A condition in the framework does not hold."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class AssertionRaised(Raises):
    """A condition in the framework does not hold."""

    name: ClassVar[str] = "assertion_error"
    about: ClassVar[str] = "A condition in the framework does not hold"
    symptom: ClassVar[str] = "assertion_error"
    category: ClassVar[Category] = "framework"
    count: ClassVar[float] = 105
    source: ClassVar[str] = ACME

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "AssertionError: gradient buffer is not ready: 3 of 7 buckets"
        return text, library(
            "megatron/core/distributed/param_and_grad_buffer.py",
            361,
            "finish_grad_sync",
            "assert self.ready",
        )

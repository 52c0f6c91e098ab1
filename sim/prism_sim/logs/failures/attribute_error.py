"""An object of the framework lacks an attribute."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class AttributeRaised(Raises):
    """An object of the framework lacks an attribute."""

    name: ClassVar[str] = "attribute_error"
    about: ClassVar[str] = "An object of the framework lacks an attribute"
    symptom: ClassVar[str] = "attribute_error"
    category: ClassVar[Category] = "framework"
    count: ClassVar[float] = 67
    source: ClassVar[str] = ACME

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "AttributeError: 'NoneType' object has no attribute 'main_grad'"
        return text, library(
            "megatron/core/optimizer/distrib_optimizer.py",
            1902,
            "step",
            "shard.grad = model_param.main_grad",
        )

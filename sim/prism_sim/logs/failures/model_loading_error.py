"""A checkpoint does not fit the model."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class ModelLoadingError(Raises):
    """A checkpoint does not fit the model."""

    name: ClassVar[str] = "model_loading_error"
    about: ClassVar[str] = "A checkpoint does not fit the model"
    symptom: ClassVar[str] = "model_loading"
    category: ClassVar[Category] = "framework"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 104
    source: ClassVar[str] = ACME
    everywhere: ClassVar[bool] = True
    launched: ClassVar[float] = 0.85
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "RuntimeError: Error(s) in loading state_dict for GPTModel:\n\tsize mismatch "
            "for embedding.word_embeddings.weight: copying a param with shape "
            "torch.Size([50304, 4096]) from checkpoint, the shape in current model is "
            "torch.Size([51200, 4096])."
        )
        return text, library(
            "torch/nn/modules/module.py",
            2581,
            "load_state_dict",
            "raise RuntimeError(",
        )

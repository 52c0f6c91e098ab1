"""The model needs more memory than a GPU has."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class CudaOutOfMemory(Raises):
    """The model needs more memory than a GPU has."""

    name: ClassVar[str] = "cuda_out_of_memory"
    about: ClassVar[str] = "The model needs more memory than a GPU has"
    symptom: ClassVar[str] = "cuda_out_of_memory"
    category: ClassVar[Category] = "user"
    count: ClassVar[float] = 14
    source: ClassVar[str] = ACME

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU "
            "0 has a total capacity of 79.15 GiB of which 1.31 GiB is free. Including "
            "non-PyTorch memory, this process has 77.83 GiB memory in use. Of the "
            "allocated memory 71.02 GiB is allocated by PyTorch, and 4.11 GiB is "
            "reserved by PyTorch but unallocated.\nSee documentation for Memory "
            "Management "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        )
        return text, script(
            scene,
            "model/layers.py",
            88,
            "forward",
            "scores = torch.matmul(query, key)",
        )

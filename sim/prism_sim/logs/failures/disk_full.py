"""The storage for checkpoints is full: a quarter of the 266 operating system errors of Acme."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class DiskFull(Raises):
    """The storage for checkpoints is full."""

    name: ClassVar[str] = "disk_full"
    about: ClassVar[str] = "The storage for checkpoints is full"
    symptom: ClassVar[str] = "disk_full"
    category: ClassVar[Category] = "user"
    count: ClassVar[float] = 66
    source: ClassVar[str] = ACME
    phases: ClassVar[tuple[str, ...]] = ("checkpoint",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "OSError: [Errno 28] No space left on device: "
            f"'/ckpt/{scene.job.user}/run/iter_{(scene.iteration or 1) - 1:07d}/shard_3.distcp'"
        )
        return text, library(
            "torch/distributed/checkpoint/filesystem.py",
            411,
            "write_data",
            "stream.write(buffer)",
        )

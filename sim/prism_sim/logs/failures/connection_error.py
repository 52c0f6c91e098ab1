"""The store that ranks share is not reachable."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class ConnectionRaised(Raises):
    """The store that ranks share is not reachable."""

    name: ClassVar[str] = "connection_error"
    about: ClassVar[str] = "The store that ranks share is not reachable"
    symptom: ClassVar[str] = "connection_error"
    category: ClassVar[Category] = "platform"
    count: ClassVar[float] = 147
    source: ClassVar[str] = ACME

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "torch.distributed.DistNetworkError: failed to recv, got 0 bytes from "
            f"{scene.job.nodes[0]}:29500"
        )
        return text, library(
            "torch/distributed/distributed_c10d.py",
            4629,
            "barrier",
            "store.wait([key], timeout)",
        )

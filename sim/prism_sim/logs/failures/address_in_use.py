"""A port of the first node is in use."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, Stage, library
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class AddressInUse(Raises):
    """A port of the first node is in use."""

    name: ClassVar[str] = "address_in_use"
    about: ClassVar[str] = "A port of the first node is in use"
    symptom: ClassVar[str] = "address_in_use"
    category: ClassVar[Category] = "platform"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 12
    source: ClassVar[str] = ACME
    launched: ClassVar[float] = 0.15
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = (
            "torch.distributed.DistNetworkError: The server socket has failed to listen "
            "on any local network address. port: 29500, useIpv6: false, code: -98, name: "
            "EADDRINUSE, message: address already in use"
        )
        return text, library(
            "torch/distributed/rendezvous.py",
            189,
            "_create_c10d_store",
            "return TCPStore(hostname, port, world_size)",
        )

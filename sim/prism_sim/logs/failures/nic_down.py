"""A network card loses its link: 7 in Llama 3, and half of the 12 network errors in Acme."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import connection_fails, ranks_end


class NicDown(FailureKind):
    """A network card loses its link."""

    name: ClassVar[str] = "nic_down"
    about: ClassVar[str] = "A network card loses its link"
    symptom: ClassVar[str] = "connection_lost"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 12
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"stopped_nic"})

    def unfold(self, scene: Scene) -> None:
        kernel, nccl, node = scene.tools.kernel, scene.tools.nccl, scene.node
        rank, when_ns, local = scene.rank, scene.when_ns, scene.job.homes[scene.rank][1]
        down = f"mlx5_core 0000:{local + 26:02x}:00.0 ens{local}np0: Link down"
        output = kernel.write("link_down", node, when_ns, down)
        scene.kernel_writes(node, when_ns, output, "indicator")
        source = scene.job.source(rank, "out")
        scene.write(source, when_ns + 5_000_000, nccl.link_down(rank, when_ns), "indicator")
        peer = (node + 1) % len(scene.job.nodes)
        ranks_end(scene, connection_fails(scene, {rank: peer}, "indicator"))

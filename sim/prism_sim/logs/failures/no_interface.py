"""One node has no network that NCCL may use."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind, Stage, raises
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class NoInterface(FailureKind):
    """One node has no network that NCCL may use."""

    name: ClassVar[str] = "no_interface"
    about: ClassVar[str] = "One node has no network that NCCL may use"
    symptom: ClassVar[str] = "no_interface"
    category: ClassVar[Category] = "platform"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 6
    source: ClassVar[str] = ACME
    launched: ClassVar[float] = 0.45
    phases: ClassVar[tuple[str, ...]] = ("launch",)
    held_out: ClassVar[bool] = True

    def unfold(self, scene: Scene) -> None:
        nccl, ends = scene.tools.nccl, {}
        scene.ranks = [*scene.job.ranks_of[scene.node]]
        for rank in scene.ranks:
            output = nccl.no_interface(rank, scene.when_ns)
            scene.write(scene.job.source(rank, "out"), scene.when_ns, output, "indicator")
            text = (
                "torch.distributed.DistBackendError: NCCL error in: "
                "/pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, invalid usage (run with "
                "NCCL_DEBUG=WARN for details)\nncclInvalidUsage: This usually reflects "
                "invalid usage of "
                "NCCL library.\nLast error:\nBootstrap : no socket interface found"
            )
            ends[rank] = raises(scene, rank, "invalid_usage", text)
        ranks_end(scene, ends)

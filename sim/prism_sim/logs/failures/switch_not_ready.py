"""The switch between the GPUs of a node is not initialised (a quarter of the 21 CUDA errors of
Acme).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, FailureKind, Stage, raises
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class SwitchNotReady(FailureKind):
    """The switch between the GPUs of a node is not initialised."""

    name: ClassVar[str] = "switch_not_ready"
    about: ClassVar[str] = "The switch between the GPUs of a node is not initialised"
    symptom: ClassVar[str] = "system_not_ready"
    category: ClassVar[Category] = "hardware"
    stage: ClassVar[Stage] = "launch"
    count: ClassVar[float] = 5
    source: ClassVar[str] = ACME
    launched: ClassVar[float] = 0.2
    phases: ClassVar[tuple[str, ...]] = ("launch",)

    def unfold(self, scene: Scene) -> None:
        kernel, node = scene.tools.kernel, scene.node
        text = "nvidia-nvswitch0: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 44 LTSSM Fault Up"
        output = kernel.write("nvswitch", node, scene.when_ns, text)
        scene.kernel_writes(node, scene.when_ns, output, "indicator")
        scene.ranks = [*scene.job.ranks_of[node]]
        error = (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some "
            "cuda functions "
            "before calling NumCudaDevices() that might have already set an error? Error "
            "802: system "
            "not yet initialized"
        )
        ranks_end(scene, {rank: raises(scene, rank, "not_ready", error) for rank in scene.ranks})

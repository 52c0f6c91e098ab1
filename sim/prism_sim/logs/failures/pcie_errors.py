"""The bus of a GPU corrects many errors, and runs at a lower speed (Llama 3.

Six of the faulty GPUs).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import UNPUBLISHED, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.text import SECOND_NS


class PcieErrors(FailureKind):
    """The bus of a GPU corrects many errors."""

    name: ClassVar[str] = "pcie_errors"
    about: ClassVar[str] = "The bus of a GPU corrects many errors"
    symptom: ClassVar[str] = "bus_errors"
    category: ClassVar[Category] = "hardware"
    stage: ClassVar[Stage] = "slow"
    count: ClassVar[float] = 6
    source: ClassVar[str] = UNPUBLISHED
    held_out: ClassVar[bool] = True
    faults: ClassVar[frozenset[str]] = frozenset({"slow_gpu"})

    def unfold(self, scene: Scene) -> None:
        kernel, node = scene.tools.kernel, scene.node
        local = scene.job.homes[scene.rank][1]
        for number in range(6):
            at_ns = scene.when_ns + number * 20 * SECOND_NS
            output = kernel.write(
                "bus",
                node,
                at_ns,
                f"pcieport 0000:{local + 26:02x}:01.0: AER: Multiple Corrected error received",
                f"nvidia 0000:{local + 27:02x}:00.0: PCIe Bus Error: severity=Corrected, "
                "type=Physical "
                "Layer, (Receiver ID)",
            )
            scene.kernel_writes(node, at_ns, output, "indicator")

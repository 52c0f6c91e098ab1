"""A node is too hot, and its processors are slow (Llama 3: thermal 6)."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.text import SECOND_NS


class ThermalSlowdown(FailureKind):
    """A node is too hot, and its processors are slow."""

    name: ClassVar[str] = "thermal_slowdown"
    about: ClassVar[str] = "A node is too hot, and its processors are slow"
    symptom: ClassVar[str] = "throttled"
    category: ClassVar[Category] = "hardware"
    stage: ClassVar[Stage] = "slow"
    count: ClassVar[float] = 6
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset({"thermal_ramp", "slow_server"})

    def unfold(self, scene: Scene) -> None:
        kernel, node = scene.tools.kernel, scene.node
        for number in range(4):
            at_ns = scene.when_ns + number * 300 * SECOND_NS
            output = kernel.write(
                "throttled",
                node,
                at_ns,
                f"mce: CPU{number * 16}: Package temperature above threshold, cpu clock throttled "
                f"(total events = {1731 + 800 * number})",
            )
            scene.kernel_writes(node, at_ns, output, "indicator")

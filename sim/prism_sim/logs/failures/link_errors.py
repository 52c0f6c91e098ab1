"""A link loses packets, and repeats them.

The kernel sees it go down and up (a quarter of switch and cable).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, Stage
from prism_sim.logs.scene import Scene
from prism_sim.logs.text import SECOND_NS


class LinkErrors(FailureKind):
    """A link loses packets, and repeats them."""

    name: ClassVar[str] = "link_errors"
    about: ClassVar[str] = "A link loses packets, and repeats them"
    symptom: ClassVar[str] = "link_errors"
    category: ClassVar[Category] = "hardware"
    stage: ClassVar[Stage] = "slow"
    count: ClassVar[float] = 9
    source: ClassVar[str] = LLAMA
    faults: ClassVar[frozenset[str]] = frozenset(
        {"slow_nic", "flapping_nic", "lossy_link", "slow_link"}
    )

    def unfold(self, scene: Scene) -> None:
        kernel, node = scene.tools.kernel, scene.node
        local = scene.job.homes[scene.rank][1]
        device = f"mlx5_core 0000:{local + 26:02x}:00.0 ens{local}np0"
        for number in range(3):
            at_ns = scene.when_ns + number * 40 * SECOND_NS
            texts = (f"{device}: Link down", f"{device}: Link up")
            output = kernel.write("link_flaps", node, at_ns, *texts)
            scene.kernel_writes(node, at_ns, output, "indicator")

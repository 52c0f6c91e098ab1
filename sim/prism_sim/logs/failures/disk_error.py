"""A local disk of a node fails (Llama 3: SSD 3)."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind, raises
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end


class DiskError(FailureKind):
    """A local disk of a node fails."""

    name: ClassVar[str] = "disk_error"
    about: ClassVar[str] = "A local disk of a node fails"
    symptom: ClassVar[str] = "input_output_error"
    category: ClassVar[Category] = "hardware"
    count: ClassVar[float] = 3
    source: ClassVar[str] = LLAMA

    def unfold(self, scene: Scene) -> None:
        kernel, node, when_ns = scene.tools.kernel, scene.node, scene.when_ns
        output = kernel.write(
            "disk",
            node,
            when_ns,
            "critical medium error, dev nvme0n1, sector 1880162304 op 0x0:(READ) flags 0x80700",
            "EXT4-fs error (device nvme0n1p1): ext4_find_entry:1682: inode #41943042: "
            "comm python3: "
            "reading directory lblock 0",
        )
        scene.kernel_writes(node, when_ns, output, "indicator")
        text = "OSError: [Errno 5] Input/output error: '/scratch/cache/index_0007.idx'"
        ranks_end(scene, {scene.rank: raises(scene, scene.rank, "input_output", text)})

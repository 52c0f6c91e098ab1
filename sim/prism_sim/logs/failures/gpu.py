"""Failures of a GPU, its memory, its links to others and its driver."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import (
    ACME,
    BYTEROBUST,
    LLAMA,
    UNPUBLISHED,
    Category,
    FailureKind,
    cuda_fails,
)
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end, ranks_hang
from prism_sim.logs.text import SECOND_NS


class GpuLost(FailureKind):
    """A GPU no longer answers on the bus (Xid 79). A third of the 148 faulty GPUs of the source."""

    name = "gpu_lost"
    about = "A GPU no longer answers on the bus"
    symptom = "cuda_failure_with_xid"
    category = "hardware"
    count = 49
    source = LLAMA
    faults = frozenset({"crash"})
    repeats_as = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        kernel, rank = scene.tools.kernel, scene.rank
        text = "GPU has fallen off the bus."
        scene.kernel_writes(
            scene.node, scene.when_ns, kernel.xid(rank, scene.when_ns, 79, text), "indicator"
        )
        ranks_end(scene, {rank: cuda_fails(scene, rank, "unspecified launch failure")})


class GpuUnknownError(FailureKind):
    """A GPU fails without a report of the driver, as in BLOOM on 2022-03-21.

    Its count is a third of the source's 148.
    """

    name = "gpu_unknown_error"
    about = "A GPU fails without a report of the driver"
    symptom = "cuda_unknown_error"
    category = "hardware"
    count = 49
    source = LLAMA
    faults = frozenset({"crash"})
    repeats_as = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        ranks_end(scene, {scene.rank: cuda_fails(scene, scene.rank, "unknown error")})


class IllegalAccessHardware(FailureKind):
    """A faulty GPU makes a kernel access a wrong address, as a wrong program does."""

    name = "illegal_access_hardware"
    about = "A faulty GPU makes a kernel access a wrong address"
    symptom = "illegal_memory_access"
    category: ClassVar[Category] = "hardware"
    count = 49
    source = LLAMA
    faults = frozenset({"crash"})
    ratio = 21  # ByteRobust, Table 2: infrastructure
    repeats_as: ClassVar[str | None] = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        error = "an illegal memory access was encountered"
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        text = "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f3a_5c200000"
        scene.kernel_writes(scene.node, when_ns, kernel.xid(rank, when_ns, 31, text), "indicator")
        ranks_end(scene, {rank: cuda_fails(scene, rank, error)})


class IllegalAccessUser(IllegalAccessHardware):
    """A kernel of the user accesses a wrong address: the lines are those of a faulty GPU."""

    name = "illegal_access_user"
    about = "A kernel of the user accesses a wrong address"
    category = "user"
    count = 41
    source = BYTEROBUST
    ratio = 41  # ByteRobust, Table 2: user code
    faults = frozenset()
    repeats_as = None


class HbmError(FailureKind):
    """The memory of a GPU has errors that it cannot correct (Xid 48 and 63).

    HBM3 72 in Llama 3, ECC 12 in Acme.
    """

    name = "hbm_error"
    about = "The memory of a GPU has errors that it cannot correct"
    symptom = "uncorrectable_ecc"
    category = "hardware"
    count = 84
    source = LLAMA
    faults = frozenset({"crash"})
    repeats_as = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        for number, text in (
            (48, "DBE (double bit error) ECC error"),
            (63, "Row Remapper: New row marked for remapping, reset gpu to activate."),
        ):
            scene.kernel_writes(
                scene.node, when_ns, kernel.xid(rank, when_ns, number, text), "indicator"
            )
        text = "Ch 00000008, preemptive channel removal"
        after_ns = when_ns + scene.seconds(0.001, 0.05)
        scene.kernel_writes(scene.node, after_ns, kernel.xid(rank, after_ns, 45, text), "cascade")
        ranks_end(scene, {rank: cuda_fails(scene, rank, "uncorrectable ECC error encountered")})


class SramError(FailureKind):
    """The on-chip memory of a GPU has errors that it cannot correct (Xid 95)."""

    name = "sram_error"
    about = "The on-chip memory of a GPU has errors that it cannot correct"
    symptom = "uncorrectable_ecc"
    category = "hardware"
    count = 19
    source = LLAMA
    faults = frozenset({"crash"})
    held_out = True
    repeats_as = "false_out_of_memory"

    def unfold(self, scene: Scene) -> None:
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        text = "Uncontained ECC error on SRAM. RST: No, D-RST: No"
        scene.kernel_writes(scene.node, when_ns, kernel.xid(rank, when_ns, 95, text), "indicator")
        ranks_end(scene, {rank: cuda_fails(scene, rank, "uncorrectable ECC error encountered")})


class NvlinkError(FailureKind):
    """A link between GPUs of a server fails (Xid 74)."""

    name = "nvlink_error"
    about = "A link between GPUs of a server fails"
    symptom = "nvlink_failure"
    category = "hardware"
    count = 54
    source = ACME
    faults = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        text = "NVLink: fatal error detected on link 7(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
        for peer in self.ends(scene):
            output = kernel.xid(peer, when_ns, 74, text, own=False)
            scene.kernel_writes(scene.node, when_ns, output, "indicator")
        ranks_end(scene, {rank: cuda_fails(scene, rank, "uncorrectable NVLink error detected")})

    def ends(self, scene: Scene) -> list[int]:
        """The ranks at both ends of the link."""
        others = [rank for rank in scene.job.ranks_of[scene.node] if rank != scene.rank]
        return [scene.rank, *others[:1]]


class GspTimeout(FailureKind):
    """The processor of a GPU that serves the driver stops (Xid 119): calls do not return."""

    name = "gsp_timeout"
    about = "The processor of a GPU that serves the driver stops"
    symptom = "gpu_hangs_with_xid"
    category = "hardware"
    stage = "hang"
    count = 17
    source = LLAMA
    faults = frozenset({"hang"})

    def unfold(self, scene: Scene) -> None:
        kernel, rank, when_ns = scene.tools.kernel, scene.rank, scene.when_ns
        text = "Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76"
        after_ns = when_ns + 45 * SECOND_NS
        scene.kernel_writes(
            scene.node, after_ns, kernel.xid(rank, after_ns, 119, text), "indicator"
        )
        ranks_hang(scene, [rank], prints=False)


class GpuHang(FailureKind):
    """A kernel of one GPU never ends: its last collective is behind those of all others."""

    name = "gpu_hang"
    about = "A kernel of one GPU never ends"
    symptom = "hang"
    category = "hardware"
    stage = "hang"
    count = 21
    source = BYTEROBUST
    faults = frozenset({"hang"})
    ratio = 14  # two thirds of 21, ByteRobust, Table 2

    def unfold(self, scene: Scene) -> None:
        ranks_hang(scene, [scene.rank], prints=True, behind=2)


class ThermalSlowdown(FailureKind):
    """A node is too hot, and its processors are slow (Llama 3: thermal 6)."""

    name = "thermal_slowdown"
    about = "A node is too hot, and its processors are slow"
    symptom = "throttled"
    category = "hardware"
    stage = "slow"
    count = 6
    source = LLAMA
    faults = frozenset({"thermal_ramp", "slow_server"})

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


class SlowGpu(FailureKind):
    """A GPU is slow without any line, as BLOOM's on 2022-04-28.

    Only the times of iterations show it.
    """

    name = "slow_gpu"
    about = "A GPU is slow without any line"
    symptom = "slow_without_lines"
    category = "hardware"
    stage = "slow"
    count = 6
    source = UNPUBLISHED
    faults = frozenset({"slow_gpu", "intermittent_gpu", "slow_server"})

    def unfold(self, scene: Scene) -> None:
        """Only the times of iterations show it."""

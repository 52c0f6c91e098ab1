"""Failures of disks and of shared storage."""

from __future__ import annotations

from prism_sim.logs.failures.base import ACME, LLAMA, FailureKind, raises
from prism_sim.logs.scene import Scene
from prism_sim.logs.spread import ranks_end, ranks_hang
from prism_sim.logs.text import SECOND_NS, message


class DiskError(FailureKind):
    """A local disk of a node fails (Llama 3: SSD 3)."""

    name = "disk_error"
    about = "A local disk of a node fails"
    symptom = "input_output_error"
    category = "hardware"
    count = 3
    source = LLAMA

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


class SlowDisk(FailureKind):
    """The storage of training data is slow: loaders of all ranks complain."""

    name = "slow_disk"
    about = "The storage of training data is slow"
    symptom = "slow_loading"
    category = "platform"
    stage = "slow"
    count = 10
    source = ACME
    faults = frozenset({"slow_storage", "loader_stalls"})

    def unfold(self, scene: Scene) -> None:
        scene.placeless()
        rank, job = scene.rank, scene.job
        for number in range(3):
            at_ns = scene.when_ns + (number * 30 + 1) * SECOND_NS
            text = (
                f"WARNING:root:batch of rank {rank} was late by {900 + 37 * number} ms "
                "(data loader)"
            )
            scene.rank_writes(rank, at_ns, message("loader.late", text), "indicator")
            rank = (rank + job.tp) % job.ranks


class StorageHang(FailureKind):
    """The file system of a node does not answer.

    Its rank sleeps in the kernel (Acme: S3 storage 10).
    """

    name = "storage_hang"
    about = "The file system of a node does not answer"
    symptom = "task_blocked"
    category = "platform"
    stage = "hang"
    count = 10
    source = ACME
    faults = frozenset({"hang"})
    phases = ("checkpoint", "iteration")

    def unfold(self, scene: Scene) -> None:
        kernel, node, rank = scene.tools.kernel, scene.node, scene.rank
        at_ns = scene.when_ns + 122 * SECOND_NS
        output = kernel.write(
            "blocked",
            node,
            at_ns,
            f"INFO: task python3:{scene.job.pid(rank)} blocked for more than 120 seconds.",
            '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
            "lustre: ckpt-OST0007-osc-ffff9c1e: Connection to ckpt-OST0007 (at "
            f"{node + 1}@o2ib) was "
            "lost; in progress operations using this service will wait for recovery to complete",
        )
        scene.kernel_writes(node, at_ns, output, "indicator")
        ranks_hang(scene, [rank], prints=True)


class LockHeld(FailureKind):
    """A thread of one rank holds the interpreter.

    The monitor of its watchdog says so (Acme: NCCL timeout 6).
    """

    name = "lock_held"
    about = "A thread of one rank holds the interpreter"
    symptom = "interpreter_held"
    category = "framework"
    stage = "hang"
    count = 3
    source = ACME
    held_out = True

    def unfold(self, scene: Scene) -> None:
        c10d, rank = scene.tools.c10d, scene.rank
        at_ns = scene.when_ns + 480 * SECOND_NS
        if at_ns < scene.when_ns + round(scene.job.timeout_s * SECOND_NS):
            scene.rank_writes(rank, at_ns, c10d.stuck(rank, at_ns, 480), "indicator")
        ranks_hang(scene, [rank], prints=False)

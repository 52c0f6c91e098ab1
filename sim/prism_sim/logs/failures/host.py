"""Failures of a node, and of processes on it."""

from __future__ import annotations

from prism_sim.logs.failures.base import (
    ACME,
    BYTEROBUST,
    LLAMA,
    UNPUBLISHED,
    FailureKind,
    raises,
)
from prism_sim.logs.scene import Ending, Scene
from prism_sim.logs.spread import KILLED, End, job_is_cancelled, node_dies, ranks_end, ranks_hang
from prism_sim.logs.text import SECOND_NS, message


class NodePower(FailureKind):
    """A node loses its power: its files end without a reason (Acme: node failure 16)."""

    name = "node_power"
    about = "A node loses its power"
    symptom = "node_lost"
    category = "hardware"
    count = 16
    source = ACME
    faults = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        scene.ranks = [*scene.job.ranks_of[scene.node]]
        node_dies(scene)


class KernelPanic(FailureKind):
    """The kernel of a node stops, with a last message.

    Power 3, chassis 2, IO board 2 and more of Llama 3.
    """

    name = "kernel_panic"
    about = "The kernel of a node stops"
    symptom = "node_lost"
    category = "platform"
    count = 8
    source = LLAMA
    faults = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        kernel, node, when_ns = scene.tools.kernel, scene.node, scene.when_ns
        scene.ranks = [*scene.job.ranks_of[node]]
        output = kernel.write(
            "panic",
            node,
            when_ns - 2_000_000,
            "watchdog: BUG: soft lockup - CPU#41 stuck for 26s! [kworker/41:2:10411]",
            "Kernel panic - not syncing: softlockup: hung tasks",
        )
        scene.kernel_writes(node, when_ns - 2_000_000, output, "indicator")
        node_dies(scene)


class MemoryRaised(FailureKind):
    """The main memory or a processor of a node has an error.

    The rank ends with SIGBUS (Llama 3: 2 + 2).
    """

    name = "memory_error"
    about = "The main memory or a processor of a node has an error"
    symptom = "machine_check"
    category = "hardware"
    count = 4
    source = LLAMA
    held_out = True

    def unfold(self, scene: Scene) -> None:
        kernel, node, when_ns = scene.tools.kernel, scene.node, scene.when_ns
        pid = scene.job.pid(scene.rank)
        output = kernel.write(
            "machine_check",
            node,
            when_ns,
            "mce: [Hardware Error]: Machine check events logged",
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#2_Chan#1_DIMM#0",
            f"Memory failure: 0x8a41f2: Killing python3:{pid} due to hardware memory corruption",
        )
        scene.kernel_writes(node, when_ns, output, "indicator")
        scene.end_rank(scene.rank, when_ns)
        ranks_end(scene, {scene.rank: End(when_ns + scene.seconds(0.01, 0.1), -7)}, "indicator")


class PcieErrors(FailureKind):
    """The bus of a GPU corrects many errors, and runs at a lower speed (Llama 3.

    Six of the faulty GPUs).
    """

    name = "pcie_errors"
    about = "The bus of a GPU corrects many errors"
    symptom = "bus_errors"
    category = "hardware"
    stage = "slow"
    count = 6
    source = UNPUBLISHED
    held_out = True
    faults = frozenset({"slow_gpu"})

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


class HostMaintenance(FailureKind):
    """The platform takes a node away for maintenance, and cancels the job (Llama 3.

    Unplanned maintenance 32).
    """

    name = "host_maintenance"
    about = "The platform takes a node away for maintenance"
    symptom = "preempted"
    category = "platform"
    count = 32
    source = LLAMA

    def unfold(self, scene: Scene) -> None:
        ending = Ending("CANCELLED", "0:15")
        scene.placeless()
        job_is_cancelled(scene, scene.when_ns, "PREEMPTION", ending)


class HostOutOfMemory(FailureKind):
    """The processes of a node need more memory than it has.

    The kernel ends a rank (Acme: out of memory 14).
    """

    name = "host_out_of_memory"
    about = "The processes of a node need more memory than it has"
    symptom = "host_out_of_memory"
    category = "user"
    count = 14
    source = ACME
    faults = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        kernel, node, rank, when_ns = scene.tools.kernel, scene.node, scene.rank, scene.when_ns
        output = kernel.killed(node, when_ns, scene.job.pid(rank), cgroup=True)
        scene.kernel_writes(node, when_ns, output, "indicator")
        scene.end_rank(rank, when_ns)
        ranks_end(scene, {rank: End(when_ns + 5_000_000, KILLED)}, "indicator")
        at_ns = scene.ended_ns[node] + scene.seconds(0.1, 0.4)
        scene.slurm_writes(at_ns, scene.tools.slurm.out_of_memory(node), "indicator")
        scene.ending = Ending("OUT_OF_MEMORY", "0:125")


class SegmentationFault(FailureKind):
    """A library of the framework accesses a wrong address (Llama 3: software bug 54)."""

    name = "segmentation_fault"
    about = "A library of the framework accesses a wrong address on the host"
    symptom = "segmentation_fault"
    category = "framework"
    count = 54
    source = LLAMA
    faults = frozenset({"crash"})

    def unfold(self, scene: Scene) -> None:
        kernel, node, rank, when_ns = scene.tools.kernel, scene.node, scene.rank, scene.when_ns
        pid = scene.job.pid(rank)
        text = (
            f"python3[{pid}]: segfault at 18 ip 00007f2b6c41d0a4 sp 00007ffd2a8f1c30 error 4 in "
            "libtorch_cpu.so[7f2b6a000000+c4e1000]"
        )
        output = kernel.write("segfault", node, when_ns, text)
        scene.kernel_writes(node, when_ns, output, "indicator")
        fatal = message("python.fatal", "Fatal Python error: Segmentation fault", "")
        scene.rank_writes(rank, when_ns, fatal, "indicator")
        scene.end_rank(rank, when_ns + 1_000_000)
        ranks_end(scene, {rank: End(when_ns + scene.seconds(0.1, 3.0), -11)}, "indicator")


class ProcessStopped(FailureKind):
    """A debugger or a signal stopped the process of a rank: it is the only one that prints nothing.

    A signal stopped the process of a rank.
    """

    name = "process_stopped"
    about = "A signal stopped the process of a rank"
    symptom = "hang_without_state"
    category = "user"
    stage = "hang"
    count = 2
    source = UNPUBLISHED
    faults = frozenset({"hang"})

    def unfold(self, scene: Scene) -> None:
        ranks_hang(scene, [scene.rank], prints=False)


class LoaderDeadlock(FailureKind):
    """Worker processes of a rank's data loader wait for each other.

    BLOOM on 2022-04-30, in an evaluation.
    """

    name = "loader_deadlock"
    about = "Worker processes of a rank's data loader wait for each other"
    symptom = "hang"
    category = "user"
    stage = "hang"
    count = 5
    source = BYTEROBUST
    faults = frozenset({"hang"})
    phases = ("iteration", "evaluation")
    ratio = 5  # ByteRobust, Table 2

    def unfold(self, scene: Scene) -> None:
        ranks_hang(scene, [scene.rank], prints=True)


class LoaderKilled(FailureKind):
    """The kernel ends a worker process of a data loader (Acme: dataloader killed 6)."""

    name = "loader_killed"
    about = "The kernel ends a worker process of a data loader"
    symptom = "loader_killed"
    category = "user"
    count = 6
    source = ACME

    def unfold(self, scene: Scene) -> None:
        kernel, node, rank, when_ns = scene.tools.kernel, scene.node, scene.rank, scene.when_ns
        pid = scene.job.pid(rank) + 4000
        output = kernel.killed(node, when_ns, pid, cgroup=True)
        scene.kernel_writes(node, when_ns, output, "indicator")
        text = f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Killed. "
        ranks_end(scene, {rank: raises(scene, rank, "loader_killed", text)})


class AgentKilled(FailureKind):
    """The agent of a node ends, and its ranks with it: only Slurm reports it."""

    name = "agent_killed"
    about = "The agent of a node ends, and its ranks with it"
    symptom = "agent_killed"
    category = "platform"
    count = 8
    source = UNPUBLISHED
    held_out = True

    def unfold(self, scene: Scene) -> None:
        node, when_ns, slurm = scene.node, scene.when_ns, scene.tools.slurm
        scene.ranks = [*scene.job.ranks_of[node]]
        for rank in scene.ranks:
            scene.end_rank(rank, when_ns)
        scene.ended_ns[node] = when_ns
        at_ns = when_ns + scene.seconds(0.1, 0.5)
        scene.slurm_writes(at_ns, slurm.ended(node, KILLED), "indicator")
        ranks_hang(scene, scene.ranks, prints=False)

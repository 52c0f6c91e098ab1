"""Failures of NICs, cables and switches, and of what ranks agree on over the network."""

from __future__ import annotations

from prism_sim.logs.failures.base import ACME, LLAMA, FailureKind, raises
from prism_sim.logs.scene import Ending, Scene
from prism_sim.logs.spread import (
    FAILED,
    abort,
    connection_fails,
    job_is_cancelled,
    ranks_end,
    ranks_hang,
)
from prism_sim.logs.text import SECOND_NS


class NicDown(FailureKind):
    """A network card loses its link: 7 in Llama 3, and half of the 12 network errors in Acme."""

    name = "nic_down"
    about = "A network card loses its link"
    symptom = "connection_lost"
    category = "hardware"
    count = 12
    source = LLAMA
    faults = frozenset({"stopped_nic"})

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


class CableFault(FailureKind):
    """A cable or a port of a switch fails.

    Only retries that are exhausted show it, at the nodes behind it.
    """

    name = "cable_fault"
    about = "A cable or a port of a switch fails"
    symptom = "connection_lost"
    category = "hardware"
    count = 35
    source = LLAMA
    faults = frozenset({"stopped_nic"})

    def unfold(self, scene: Scene) -> None:
        peer = (scene.node + 1) % len(scene.job.nodes)
        lost = connection_fails(scene, {scene.rank: peer}, "indicator")
        ranks_end(scene, lost)


class SwitchFault(FailureKind):
    """A switch fails, and several nodes behind it lose one rail: half of the 12 network errors."""

    name = "switch_fault"
    about = "A switch fails, and several nodes behind it"
    symptom = "many_connections_lost"
    category = "hardware"
    count = 6
    source = ACME
    held_out = True

    def unfold(self, scene: Scene) -> None:
        count = len(scene.job.nodes)
        behind = [(scene.node + step) % count for step in range(max(1, count // 3))]
        scene.nodes = sorted(set(behind))
        local = scene.job.homes[scene.rank][1]
        scene.ranks = [
            rank
            for node in scene.nodes
            for rank in scene.job.ranks_of[node]
            if scene.job.homes[rank][1] == local
        ]
        peers = {rank: (scene.job.node_of(rank) + 1) % count for rank in scene.ranks}
        ranks_end(scene, connection_fails(scene, peers, "indicator"))


class LinkErrors(FailureKind):
    """A link loses packets, and repeats them.

    The kernel sees it go down and up (a quarter of switch and cable).
    """

    name = "link_errors"
    about = "A link loses packets, and repeats them"
    symptom = "link_errors"
    category = "hardware"
    stage = "slow"
    count = 9
    source = LLAMA
    faults = frozenset({"slow_nic", "flapping_nic", "lossy_link", "slow_link"})

    def unfold(self, scene: Scene) -> None:
        kernel, node = scene.tools.kernel, scene.node
        local = scene.job.homes[scene.rank][1]
        device = f"mlx5_core 0000:{local + 26:02x}:00.0 ens{local}np0"
        for number in range(3):
            at_ns = scene.when_ns + number * 40 * SECOND_NS
            texts = (f"{device}: Link down", f"{device}: Link up")
            output = kernel.write("link_flaps", node, at_ns, *texts)
            scene.kernel_writes(node, at_ns, output, "indicator")


class TransportStall(FailureKind):
    """Transfers of one node stop without an error.

    Several of its ranks are behind (NCCL watchdog 7).
    """

    name = "transport_stall"
    about = "Transfers of one node stop without an error"
    symptom = "hang"
    category = "hardware"
    stage = "hang"
    count = 7
    source = LLAMA
    faults = frozenset({"hang", "stopped_nic"})
    ratio = 7  # one third of 21, ByteRobust, Table 2

    def unfold(self, scene: Scene) -> None:
        scene.ranks = [*scene.job.ranks_of[scene.node]][: max(1, scene.job.gpus // 2)]
        scene.rank = scene.ranks[0]
        ranks_hang(scene, scene.ranks, prints=True)


class CollectiveMismatch(FailureKind):
    """One rank takes another branch, and calls other collectives.

    Its time-out names another operation (Acme: NCCL timeout 6).
    """

    name = "collective_mismatch"
    about = "One rank takes another branch, and calls other collectives"
    symptom = "collective_mismatch"
    category = "user"
    stage = "hang"
    count = 3
    source = ACME

    def unfold(self, scene: Scene) -> None:
        c10d, rank = scene.tools.c10d, scene.rank
        waits = scene.waits._replace(kind="BROADCAST", elements=1)
        limit_ns = scene.when_ns + round(scene.job.timeout_s * SECOND_NS)
        at_ns = limit_ns + scene.seconds(0.0, 0.1)
        ran_ms = round(scene.job.timeout_s * 1000) + 31
        reason = c10d.waited(rank, waits, ran_ms)
        scene.rank_writes(rank, at_ns, c10d.timeout(rank, at_ns, reason), "indicator")
        abort(scene, rank, at_ns + scene.seconds(0.2, 0.5), reason, "cascade")
        ranks_hang(scene, [rank], prints=False)


class RendezvousFailed(FailureKind):
    """A node cannot reach the first node when the job starts (Acme: network error 12)."""

    name = "rendezvous_failed"
    about = "A node cannot reach the first node when the job starts"
    symptom = "rendezvous_failed"
    category = "platform"
    stage = "launch"
    count = 12
    source = ACME
    launched = 0.1
    phases = ("launch",)

    def unfold(self, scene: Scene) -> None:
        node, at_ns = scene.node, scene.when_ns + 60 * SECOND_NS
        output = scene.tools.torchrun.unreachable(node, at_ns)
        scene.agent_writes(node, at_ns, output, "indicator")
        for rank in range(scene.job.ranks):
            scene.silence(rank, scene.job.times.begin_ns)
        scene.ranks = [*scene.job.ranks_of[node]]
        scene.ended_ns[node] = at_ns + scene.seconds(0.1, 0.5)
        scene.slurm_writes(scene.ended_ns[node], scene.tools.slurm.ended(node, FAILED), "cascade")
        job_is_cancelled(scene, scene.ended_ns[node] + SECOND_NS, "", Ending("FAILED", "1:0"))


class NoInterface(FailureKind):
    """One node has no network that NCCL may use."""

    name = "no_interface"
    about = "One node has no network that NCCL may use"
    symptom = "no_interface"
    category = "platform"
    stage = "launch"
    count = 6
    source = ACME
    launched = 0.45
    phases = ("launch",)
    held_out = True

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


class SwitchNotReady(FailureKind):
    """The switch between the GPUs of a node is not initialised (a quarter of the 21 CUDA errors of
    Acme).
    """

    name = "switch_not_ready"
    about = "The switch between the GPUs of a node is not initialised"
    symptom = "system_not_ready"
    category = "hardware"
    stage = "launch"
    count = 5
    source = ACME
    launched = 0.2
    phases = ("launch",)

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

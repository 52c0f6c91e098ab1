"""NCCL: its warnings, and its information about communicators, channels and calls.

Source: NVIDIA/nccl, src/debug.cc (prefixes, the limit of a line), src/transport/net_ib.cc,
src/misc/socket.cc, src/init.cc, src/enqueue.cc (lines of collectives).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.text import Message, date_time, message
from prism_sim.logs.tools.base import Tool

LONGEST = 1023
"""Bytes of a line: its buffer of 1,024 bytes cuts longer ones."""


class Nccl(Tool):
    """NCCL 2.18."""

    version: ClassVar[str] = "2.18"
    library: ClassVar[str] = "NCCL version 2.18.5+cuda12.2"

    def head(self, rank: int, *, proxy: bool = False) -> str:
        """Host, process, thread and device."""
        node, local = self.job.homes[rank]
        pid = self.job.pid(rank)
        return f"{self.job.nodes[node]}:{pid}:{pid + (811 if proxy else 3)} [{local}]"

    def info(self, rank: int, text: str) -> str:
        return f"{self.head(rank)} NCCL INFO {text}"[:LONGEST]

    def warning(self, rank: int, time_ns: int, place: str, text: str) -> tuple[str, ...]:
        """A warning: an empty line first. ``place`` is ``file:line function``."""
        where = place.split()[0]
        return ("", f"{self.head(rank, proxy=True)} {where} NCCL WARN {text}"[:LONGEST])

    def completion(self, rank: int, time_ns: int, peer: int) -> Message:
        """Sending to node ``peer`` failed: the transport retried too often."""
        hca = f"mlx5_{self.job.homes[rank][1]}"
        address = f"{self.job.address(peer)}<{40000 + peer}>"
        text = (
            f"NET/IB: Got completion from peer {address} with status=12 opcode=0 len=0 vendor err "
            f"129 (Send) hca {hca}"
        )
        lines = self.warning(rank, time_ns, "transport/net_ib.cc:1295 ncclIbTest", text)
        return message("nccl.completion", *lines, *self._passed_on(rank, "transport/net.cc:1034"))

    def closed(self, rank: int, time_ns: int, peer: int) -> Message:
        """A socket's other end has closed it."""
        address = f"{self.job.address(peer)}<{40000 + peer}>"
        text = f"Net : Connection closed by remote peer {address}"
        lines = self.warning(rank, time_ns, "misc/socket.cc:49 socketProgress", text)
        return message("nccl.closed", *lines, *self._passed_on(rank, "misc/socket.cc:57"))

    def link_down(self, rank: int, time_ns: int) -> Message:
        """The device reports that its port is down."""
        hca = f"mlx5_{self.job.homes[rank][1]}"
        text = f"NET/IB : Got async event : port error on {hca}:1"
        lines = self.warning(rank, time_ns, "transport/net_ib.cc:92 ncclIbAsyncThreadMain", text)
        return message("nccl.link_down", *lines)

    def no_interface(self, rank: int, time_ns: int) -> Message:
        text = "Bootstrap : no socket interface found"
        lines = self.warning(rank, time_ns, "bootstrap.cc:45 bootstrapNetInit", text)
        return message("nccl.no_interface", *lines)

    def cuda_failure(self, rank: int, time_ns: int, error: str) -> Message:
        text = f"Cuda failure '{error}'"
        lines = self.warning(rank, time_ns, "enqueue.cc:1047 ncclLaunchKernel", text)
        return message("nccl.cuda_failure", *lines)

    def opened(self, rank: int) -> list[str]:
        """The start of a communicator, without its channels."""
        node, local = self.job.homes[rank]
        ranks, gpus = self.job.ranks, self.job.gpus
        interface = self.job.address(node)
        network = (
            "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:" + f"{interface}<0>"
            if self.job.rdma
            else f"NET/Socket : Using [0]eth0:{interface}<0>"
        )
        texts = (
            f"Bootstrap : Using eth0:{interface}<0>",
            "NET/Plugin: No plugin found (libnccl-net.so), using internal implementation",
            network,
            f"Using network {'IB' if self.job.rdma else 'Socket'}",
            f"comm 0x55{rank:08x}a0 rank {rank} nranks {ranks} cudaDev {local} nvmlDev {local} "
            f"busId {local * 16 + 27:x}000 commId 0x5c2a7b9d13e4f608 - Init START",
            f"comm 0x55{rank:08x}a0 rank {rank} nRanks {ranks} nNodes {len(self.job.nodes)} "
            f"localRanks {gpus} localRank {local} MNNVL 0",
            f"Trees [0] {(rank + 1) % ranks}/-1/-1->{rank}->{(rank - 1) % ranks} "
            f"[1] {(rank + 1) % ranks}/-1/-1->{rank}->{(rank - 1) % ranks}",
        )
        return [self.info(rank, text) for text in texts]

    def complete(self, rank: int) -> str:
        """A communicator is ready."""
        local = self.job.homes[rank][1]
        return self.info(
            rank,
            f"comm 0x55{rank:08x}a0 rank {rank} nranks {self.job.ranks} cudaDev {local} "
            f"nvmlDev {local} busId {local * 16 + 27:x}000 - Init COMPLETE",
        )

    def failure(self) -> str:
        """The text of a failed call in an exception of PyTorch."""
        return (
            "NCCL error: remote process exited or there was a network error, NCCL version 2.18.5\n"
            "ncclRemoteError: A call failed possibly due to a network error or a remote process "
            "exiting prematurely."
        )

    def _passed_on(self, rank: int, place: str) -> tuple[str, ...]:
        """The calls that an error passes through; printed from INFO on."""
        if self.job.nccl_debug == "warn":
            return ()
        head = f"{self.head(rank, proxy=True)} NCCL INFO"
        return tuple(f"{head} {where} -> 6" for where in (place, "proxy.cc:694", "proxy.cc:874"))


class Nccl228(Nccl):
    """NCCL 2.28: warnings have a time and a function."""

    version: ClassVar[str] = "2.28"
    held_out: ClassVar[bool] = True
    library: ClassVar[str] = "NCCL version 2.28.3+cuda12.9"

    def warning(self, rank: int, time_ns: int, place: str, text: str) -> tuple[str, ...]:
        where, function = place.split()
        stamp = date_time(self.of_rank(rank, time_ns))
        head = f"[{stamp}] {self.head(rank, proxy=True)} {where} ({function})"
        return ("", f"{head} NCCL WARN {text}"[:LONGEST])

    def completion(self, rank: int, time_ns: int, peer: int) -> Message:
        hca = f"mlx5_{self.job.homes[rank][1]}"
        address = f"{self.job.address(peer)}<{40000 + peer}>"
        text = (
            f"NET/IB: Got completion from peer {address} with status=IBV_WC_RETRY_EXC_ERR(12) "
            f"opcode=IBV_WC_SEND(0) vendor_err=129 req_type=Send hca {hca}"
        )
        lines = self.warning(rank, time_ns, "transport/net_ib.cc:2472 ncclIbTest", text)
        return message("nccl.completion", *lines, *self._passed_on(rank, "transport/net.cc:1362"))

    def failure(self) -> str:
        return super().failure().replace("2.18.5", "2.28.3")

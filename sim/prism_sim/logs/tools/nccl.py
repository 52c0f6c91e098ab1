"""NCCL: its warnings, and its information about communicators, channels and calls.

Source: NVIDIA/nccl, src/debug.cc (prefixes, the limit of a line), src/transport/net_ib.cc,
src/misc/socket.cc, src/init.cc, src/enqueue.cc (lines of collectives).
"""

from __future__ import annotations

from typing import Any, ClassVar

from prism_sim.logs.text import Message, date_time, message
from prism_sim.logs.tools.base import Tool

LONGEST = 1023
"""Bytes of a line: its buffer of 1,024 bytes cuts longer ones."""


class Nccl(Tool):
    """NCCL 2.18."""

    name: ClassVar[str] = "nccl"
    version: ClassVar[str] = "2.18"

    def head(self, rank: int, *, proxy: bool = False) -> str:
        """Host, process, thread and device."""
        node, local = self.job.homes[rank]
        pid = self.job.pid(rank)
        return f"{self.job.nodes[node]}:{pid}:{pid + (811 if proxy else 3)} [{local}]"

    def info(self, rank: int, text: str) -> str:
        return f"{self.head(rank)} NCCL INFO {text}"[:LONGEST]

    def warning(self, rank: int, time_ns: int, where: str, function: str, text: str) -> str:
        """A warning; ``where`` is the file and its line."""
        return f"{self.head(rank, proxy=True)} {where} NCCL WARN {text}"

    def warns(self, event: str, rank: int, time_ns: int, peer: int | None = None) -> Message:
        """A warning, perhaps about the node ``peer``: an empty line first, then who passes it on.

        The calls that an error passes through are printed from INFO on.
        """
        where, function, text, *passed_on = self.statement(event)
        values = {"hca": f"mlx5_{self.job.homes[rank][1]}"}
        if peer is not None:
            values["peer"] = f"{self.job.address(peer)}<{40000 + peer}>"
        line = self.warning(rank, time_ns, where, function, text.format(**values))
        places = [*passed_on, "proxy.cc:694", "proxy.cc:874"] if passed_on else []
        head = f"{self.head(rank, proxy=True)} NCCL INFO"
        shown = (
            [] if self.job.nccl_debug == "warn" else [f"{head} {place} -> 6" for place in places]
        )
        return message(f"nccl.{event}", "", line[:LONGEST], *shown)

    def opened(self, rank: int) -> list[str]:
        """The start of a communicator, without its channels."""
        node, rdma = self.job.homes[rank][0], self.job.rdma
        address = self.job.address(node)
        network = self.statement("rdma" if rdma else "socket").format(address=address)
        known = {"address": address, "network": network, "name": "IB" if rdma else "Socket"}
        return [self._of_communicator(rank, text, **known) for text in self.statement("opened")]

    def complete(self, rank: int) -> str:
        """A communicator is ready."""
        return self._of_communicator(rank, self.statement("complete"))

    def _of_communicator(self, rank: int, text: str, **values: Any) -> str:
        job, local = self.job, self.job.homes[rank][1]
        known: dict[str, Any] = {
            "rank": rank, "ranks": job.ranks, "local": local, "bus": local * 16 + 27,
            "nodes": len(job.nodes), "gpus": job.gpus,
            "after": (rank + 1) % job.ranks, "before": (rank - 1) % job.ranks,
        }  # fmt: skip
        return self.info(rank, text.format(**known, **values))


class Nccl228(Nccl):
    """NCCL 2.28: warnings have a time and a function."""

    version: ClassVar[str] = "2.28"
    held_out: ClassVar[bool] = True

    def warning(self, rank: int, time_ns: int, where: str, function: str, text: str) -> str:
        stamp = date_time(self.of_rank(rank, time_ns))
        head = f"[{stamp}] {self.head(rank, proxy=True)} {where} ({function})"
        return f"{head} NCCL WARN {text}"

"""Collectives: PyTorch's process groups, and NCCL.

PyTorch's process groups: the watchdog of collectives, and how it ends a rank.

Source: pytorch/pytorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp; c10/util/Logging.cpp for
the prefix (the month is not padded). Sequences as in public reports, such as NVIDIA's
performance recipes (rank368, E808).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from prism_sim.logs.text import Message, bare_day, date_time, message
from prism_sim.logs.tools.base import Tool


class State(NamedTuple):
    """The collectives of a rank: numbers of the last one that it enqueued, and completed."""

    enqueued: int
    completed: int


class Collective(NamedTuple):
    """A collective that waits: its number, kind and elements."""

    number: int
    kind: str
    elements: int


class C10d(Tool):
    """The process groups of PyTorch 2.6."""

    name: ClassVar[str] = "c10d"
    version: ClassVar[str] = "2.6"
    has_status: ClassVar[bool] = True
    """Whether it prints the state of its collectives, and notices dumps of other ranks."""

    def line(self, level: str, rank: int, time_ns: int, place: str, text: str) -> str:
        stamp = bare_day(self.of_rank(rank, time_ns))
        number = self.statement("numbers")[place]
        return f"[rank{rank}]:[{level}{stamp} ProcessGroupNCCL.cpp:{number}] {text}"

    def group(self, rank: int) -> str:
        """The prefix of a group."""
        return f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "

    def waited(self, rank: int, waits: Collective, ran_ms: int) -> str:
        """The reason of a time-out."""
        limit_ms = round(self.job.timeout_s * 1000)
        text: str = self.statement("waited")
        return text.format(rank=rank, waits=waits, limit_ms=limit_ms, ran_ms=ran_ms)

    def say(self, event: str, rank: int, time_ns: int, **values: Any) -> Message:
        """The lines of a statement."""
        known = {"rank": rank, "group": self.group(rank), **values}
        lines = (
            self.line(level, rank, time_ns, place, text.format(**known))
            for level, place, text in self.statement(event)
        )
        return message(f"c10d.{event}", *lines)

    def terminated(self, rank: int, time_ns: int, reason: str) -> Message:
        """The exception of the watchdog, which ends the process with SIGABRT."""
        form: str = self.statement("terminating")
        text = form.format(rank=rank, group=self.group(rank), reason=reason)
        return message(
            "c10d.terminated",
            self.line("E", rank, time_ns, "terminated", text),
            *self._frames(rank, reason),
            "",
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            f"  what():  {text}",
        )

    def _frames(self, rank: int, reason: str) -> list[str]:
        """The C++ stack of an exception."""
        origins, frames = self.statement("origins"), self.statement("frames")
        origin = next(place for begin, place in origins.items() if reason.startswith(begin))
        numbers = self.job.generator("frames", rank).integers(1 << 39, size=len(frames)).tolist()
        calls = (
            frame.format(low=value & 0xFFF, value=value, packages=self.packages)
            for frame, value in zip(frames, numbers, strict=True)
        )
        stack = [f"frame #{number}: {call}" for number, call in enumerate(calls)]
        return [f"Exception raised from {origin} (most recent call first):", *stack]


class C10d22(C10d):
    """The process groups of PyTorch 2.2: no dates, and no state of the collectives."""

    version: ClassVar[str] = "2.2"
    has_status: ClassVar[bool] = False

    def line(self, level: str, rank: int, time_ns: int, place: str, text: str) -> str:
        number = self.statement("numbers")[place]
        return f"[rank{rank}]:[{level} ProcessGroupNCCL.cpp:{number}] {text}"

    def group(self, rank: int) -> str:
        return f"[Rank {rank}] "


# NCCL: its warnings, and its information about communicators, channels and calls.
#
# Source: NVIDIA/nccl, src/debug.cc (prefixes, the limit of a line), src/transport/net_ib.cc,
# src/misc/socket.cc, src/init.cc, src/enqueue.cc (lines of collectives).

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

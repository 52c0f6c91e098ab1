"""The plan of a job whose logs are written: who it is, what it runs on, and when it does what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_sim.draws import Draws

Layout = Literal["job", "node", "rank"]
NcclDebug = Literal["warn", "info", "coll"]
Framework = Literal["megatron", "deepspeed"]
Ints = NDArray[np.int64]

AGENT, KERNEL = -1, -2
"""Local ranks that stand for the torchrun agent and for the kernel of a node."""


class Source(NamedTuple):
    """A program that prints: the node's number within the job, the local rank, and the stream.

    The batch step of Slurm has node -1.
    """

    node: int
    local: int = AGENT
    stream: Literal["out", "err"] = "err"


SLURM = Source(-1)


class Pause(NamedTuple):
    """An evaluation or a checkpoint after an iteration; it has no end if a failure stopped it."""

    iteration: int
    start_ns: int
    end_ns: int | None


@dataclass(frozen=True)
class Times:
    """When the job did what [true ns since 1970].

    Attributes
    ----------
    submit_ns, begin_ns : it is queued; its processes start.
    training_ns : its first iteration begins.
    first : number of that iteration, from 1.
    total : iterations that are planned.
    starts_ns, ends_ns : starts and ends of the iterations that were completed; ``starts_ns`` also
        has that of the next, at the end of the pauses before it.
    saves, evaluations : checkpoints and evaluations that began.
    """

    submit_ns: int
    begin_ns: int
    training_ns: int
    first: int
    total: int
    starts_ns: Ints
    ends_ns: Ints
    saves: tuple[Pause, ...] = ()
    evaluations: tuple[Pause, ...] = ()

    @property
    def last_ns(self) -> int:
        """The start of the iteration after the last."""
        return int(self.starts_ns[-1])

    @property
    def step_ns(self) -> int:
        """Median length of an iteration; one second if none is known."""
        lengths = self.ends_ns - self.starts_ns[:-1]
        return int(np.median(lengths)) if len(lengths) else 1_000_000_000


@dataclass(frozen=True)
class LogJob:
    """A job, as its logs need it.

    Attributes
    ----------
    name, title, user, job_id : its folder; its name, user and number in the accounting.
    nodes : their names, by number.
    homes : node number and local rank of every rank.
    versions : the version of every tool.
    calls : collective calls of an iteration.
    timeout_s : of collectives.
    kills : whether Slurm ends the job when one task has failed (KillOnBadExit).
    rdma : whether nodes communicate by RDMA; otherwise by sockets.
    clocks_ns : what the clock of each node is ahead of the true time.
    """

    name: str
    title: str
    user: str
    job_id: int
    nodes: tuple[str, ...]
    gpus: int
    homes: Sequence[tuple[int, int]]
    framework: Framework
    versions: Mapping[str, str]
    layout: Layout
    nccl_debug: NcclDebug
    calls: int
    dp: int
    pp: int
    tp: int
    times: Times
    timeout_s: float
    kills: bool
    rdma: bool
    clocks_ns: tuple[int, ...]
    draws: Draws = field(repr=False)

    @property
    def ranks(self) -> int:
        return len(self.homes)

    @cached_property
    def ranks_of(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each node, by local rank."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for rank, (node, _) in enumerate(self.homes):
            found[node].append(rank)
        return tuple(tuple(sorted(ranks, key=lambda rank: self.homes[rank][1])) for ranks in found)

    def node_of(self, rank: int) -> int:
        return self.homes[rank][0]

    def source(self, rank: int, stream: Literal["out", "err"] = "err") -> Source:
        node, local = self.homes[rank]
        return Source(node, local, stream)

    def clock(self, node: int, time_ns: int) -> int:
        """The time that the clock of ``node`` shows; Slurm's clock is right."""
        return time_ns + (self.clocks_ns[node] if node >= 0 else 0)

    def agent_pid(self, node: int) -> int:
        return 2_000 + self.draws.number("pid", self.name, node, bits=16)

    def pid(self, rank: int) -> int:
        node, local = self.homes[rank]
        return self.agent_pid(node) + 67 + local

    def address(self, node: int) -> str:
        """An address of ``node`` in the management network."""
        number = self.draws.number("address", self.nodes[node], bits=16)
        return f"10.{number >> 12}.{number >> 6 & 63}.{number & 63}"

    def generator(self, purpose: str, *key: int | str) -> np.random.Generator:
        return self.draws.stream(purpose, self.name, *key)

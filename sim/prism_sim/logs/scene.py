"""What a failure makes of a job: lines, ends of processes, and the answer.

A failure kind and the reactions of the other parts write into the scene. Everything that a rank
prints without the failure stops when the scene silences the rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from prism_sim.logs.job import AGENT, KERNEL, SLURM, LogJob, Source
from prism_sim.logs.text import SECOND_NS, Message, Role
from prism_sim.logs.tools import Tools
from prism_sim.logs.tools.c10d import Collective, State

ADVICE = (
    "CUDA kernel errors might be asynchronously reported",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING",
    "Compile with `TORCH_USE_CUDA_DSA`",
    "See documentation for Memory Management",
)
"""Beginnings of lines that are advice, whatever the message is about."""

_LINE_NS = 1_000
"""Time from one line of a message to the next."""


class Written(NamedTuple):
    """A line of a source at a true time."""

    source: Source
    time_ns: int
    text: str
    role: Role | None
    event: str


class Ending(NamedTuple):
    """How the scheduler accounts a job."""

    state: str
    exit_code: str


@dataclass
class Scene:
    """The course of one failure, and what it lets programs print.

    Attributes
    ----------
    job, tools : the job and its programs.
    rng : draws of this scene.
    when_ns : the fault begins.
    iteration : the iteration that is not completed, or the first slow one; None during launch.
    phase : what the job does then: launch, iteration, evaluation, checkpoint.
    rank : the first faulty rank; ``node`` is its node.
    slow : whether the job goes on, more slowly.
    ranks, nodes : all faulty ranks and nodes; both are empty if the fault has no place.
    lines : what was written.
    silent_ns : from when each rank does nothing more that it would do without the failure.
    gone_ns : from when the process of each rank has ended.
    dead_ns : from when nothing of a node reaches its files.
    ended_ns : from when each node has no processes of the job.
    ending : how the job is accounted.
    """

    job: LogJob
    tools: Tools
    rng: np.random.Generator
    when_ns: int
    iteration: int | None
    phase: str
    rank: int
    slow: bool = False
    ranks: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    lines: list[Written] = field(default_factory=list)
    silent_ns: dict[int, int] = field(default_factory=dict)
    gone_ns: dict[int, int] = field(default_factory=dict)
    dead_ns: dict[int, int] = field(default_factory=dict)
    ended_ns: dict[int, int] = field(default_factory=dict)
    ending: Ending = field(default_factory=lambda: Ending("FAILED", "1:0"))

    def __post_init__(self) -> None:
        self.ranks = self.ranks or [self.rank]
        self.nodes = self.nodes or [self.node]

    @property
    def node(self) -> int:
        """The node of the first faulty rank."""
        return self.job.node_of(self.rank)

    @property
    def end_ns(self) -> int:
        """The last process of the job has ended."""
        return max(self.ended_ns.values(), default=self.when_ns)

    def seconds(self, low: float, high: float) -> int:
        """A drawn duration in [low, high) seconds [ns]."""
        return int(self.rng.uniform(low, high) * SECOND_NS)

    def write(self, source: Source, time_ns: int, output: Message, role: Role | None) -> None:
        """Let ``source`` print a message; lines that only advise get the role of advice."""
        for number, text in enumerate(output.lines):
            advice = role is not None and any(part in text for part in ADVICE)
            line_role: Role | None = "boilerplate" if advice else role
            at_ns = time_ns + number * _LINE_NS
            self.lines.append(Written(source, at_ns, text, line_role, output.event))

    def rank_writes(self, rank: int, time_ns: int, output: Message, role: Role | None) -> None:
        self.write(self.job.source(rank), time_ns, output, role)

    def agent_writes(self, node: int, time_ns: int, output: Message, role: Role | None) -> None:
        self.write(Source(node, AGENT), time_ns, output, role)

    def kernel_writes(self, node: int, time_ns: int, output: Message, role: Role | None) -> None:
        self.write(Source(node, KERNEL), time_ns, output, role)

    def slurm_writes(self, time_ns: int, output: Message, role: Role | None) -> None:
        self.write(SLURM, time_ns, output, role)

    def silence(self, rank: int, time_ns: int) -> None:
        """``rank`` stops its work at ``time_ns``; its threads may still report."""
        self.silent_ns[rank] = min(time_ns, self.silent_ns.get(rank, time_ns))

    def end_rank(self, rank: int, time_ns: int) -> None:
        """The process of ``rank`` ends at ``time_ns``."""
        self.silence(rank, time_ns)
        self.gone_ns[rank] = min(time_ns, self.gone_ns.get(rank, time_ns))

    @property
    def printed(self) -> list[Written]:
        """The lines, except those of processes that had ended before they would have printed."""
        job, never_ns = self.job, 1 << 62
        gone = {job.homes[rank]: time_ns for rank, time_ns in self.gone_ns.items()}
        return [
            line
            for line in self.lines
            if line.time_ns <= gone.get((line.source.node, line.source.local), never_ns)
        ]

    def placeless(self) -> None:
        """The fault is in the program of all ranks."""
        self.ranks, self.nodes = [], []

    @property
    def waits(self) -> Collective:
        """The collective that the ranks wait for."""
        done, calls = len(self.job.times.ends_ns), self.job.calls
        number = done * calls + (calls // 2 if self.phase == "iteration" else 0) + 1
        return Collective(number, "ALLREDUCE", 40_000_000 if done else 1)

    def state_of(self, ahead: int) -> State:
        """The state of a rank that is ``ahead`` of the collective that is waited for."""
        number = self.waits.number
        return State(number + ahead, number - 1 + min(ahead, 0))

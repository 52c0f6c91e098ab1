"""What the logs of a job tell: events with their writers, progress, ranks and nodes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from llmlog.clocks import ITERATION, KINDS, Moment, offsets, seconds
from llmlog.progress import Progress
from llmlog.reading import Job
from prism_common.recorder import Dump

TEXT_KEPT = 4000
"""Characters of an event that are kept."""
KEPT, MOST = 100, 200_000
"""Events of one kind and writer, and of a job, that are kept."""
_OWN_PID = re.compile(r"pid[=: ]+(\d+)|python3?[:\[](\d+)|Kill(?:ed)? process (\d+)")


class Writer(NamedTuple):
    """Who prints: a node (None: the scheduler), and a local rank (None: its agent or kernel).

    ``stream`` tells processes apart that have neither; it is empty if nothing does.
    """

    node: str | None
    local: int | None
    kernel: bool = False
    stream: str = ""


@dataclass
class Event:
    """Lines that say one thing together.

    Attributes
    ----------
    kind, group : of the catalogue; exceptions have kind ``exception``.
    writer, rank : who printed it; the global rank if it is known.
    file, line, count : where it begins, and how many lines it has.
    text : of all its lines, without prefixes; what it states in the end begins at ``stated``.
    fields : what the pattern of its kind found.
    role : set by ``roles``.
    error : the name of its exception; of several that are chained, of the one that counts.
    overcome : whether the job went on in spite of it, or began again.
    row, job : the job that a row of a table, or the line, is about; None if it names none.
    """

    kind: str
    group: str
    writer: Writer
    rank: int | None
    file: str
    line: int
    time: str
    text: str
    fields: dict[str, str | None] = field(default_factory=dict)
    count: int = 1
    role: str = ""
    error: str = ""
    stated: int = 0
    overcome: bool = False
    row: str | None = None
    job: str | None = None

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.text) < TEXT_KEPT:
            self.text += "\n" + text[:TEXT_KEPT]

    @property
    def statement(self) -> str:
        """What it says in the end: the exception that ended the process, or all of it."""
        return self.text[self.stated :]

    @property
    def node(self) -> str | None:
        """The node it is about: the one it names, or the one of its writer."""
        return self.fields.get("node") or self.writer.node

    @property
    def own_pid(self) -> int | None:
        """The process that a kernel's line is about."""
        match = _OWN_PID.search(self.text) if self.writer.kernel else None
        return int(next(text for text in match.groups() if text)) if match else None

    def numbers(self, *names: str) -> list[int]:
        """Numbers in those of its fields."""
        texts = (self.fields.get(name) or "" for name in names)
        return [int(number) for text in texts for number in re.findall(r"\d+", text)]


class Ended(NamedTuple):
    """A rank that torchrun's summary says has failed; ``first`` if it calls it the root cause."""

    rank: int
    local: int
    node: str
    code: int
    pid: int
    first: bool


@dataclass
class Evidence:
    """All that the logs of a job tell.

    Attributes
    ----------
    ranks : global rank by writer; ``pids`` : local rank by node and process.
    rank_nodes : nodes of ranks that lines name together; ``task_nodes`` : of a launcher's tasks.
    addresses : nodes by their other names; ``hosts`` : those that lines of a file name.
    named : hosts in the summaries of a file.
    tasks : local ranks that lines of each numbered process name; ``task_ranks`` : with their ranks.
    rows : jobs of which the rows of a file's tables tell.
    sizes : of the layout, by axis, as arguments that are printed have them.
    size : ranks of the largest group that lines name; 0 if none does.
    ended : what summaries of torchrun say.
    understood, lines : lines of a known kind, and all.
    unread : places of lines of no known kind with words of errors, and their text.
    """

    job: Job
    nodes: tuple[str, ...]
    events: list[Event] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    ranks: dict[Writer, int] = field(default_factory=dict)
    pids: dict[tuple[str, int], int] = field(default_factory=dict)
    rank_nodes: dict[int, str] = field(default_factory=dict)
    task_nodes: dict[int, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    named: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    tasks: dict[int, set[int | None]] = field(default_factory=lambda: defaultdict(set))
    task_ranks: set[tuple[int, int]] = field(default_factory=set)
    rows: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    sizes: dict[str, set[int]] = field(default_factory=dict)
    size: int = 0
    ended: list[Ended] = field(default_factory=list)
    dumps: dict[int, Dump] = field(default_factory=dict)
    dump_files: dict[int, str] = field(default_factory=dict)
    lines: int = 0
    understood: int = 0
    unread: list[tuple[str, int, str]] = field(default_factory=list)
    samples: dict[str, str] = field(default_factory=dict)

    _kept: Counter[tuple[str, Writer]] = field(default_factory=Counter)
    _last: dict[tuple[str, Writer], int] = field(default_factory=dict)
    passed_over: int = 0

    def keep(self, event: Event) -> None:
        """Add an event; of very many of one kind and writer, the last takes the last place."""
        key = (event.kind, event.writer)
        self._kept[key] += 1
        if self._kept[key] > KEPT or (len(self.events) >= MOST and key in self._last):
            self.events[self._last[key]] = event
            self.passed_over += 1
        elif len(self.events) < MOST:
            self._last[key] = len(self.events)
            self.events.append(event)
        else:
            self.passed_over += 1

    @cached_property
    def clocks(self) -> dict[str, float]:
        """Offsets of the nodes' clocks [s]."""
        return offsets(self._moments())

    def _moments(self) -> Iterator[Moment]:
        passed = [(each.kind, 0, each.node, each.time) for each in self.of(*KINDS)]
        passed += [
            (ITERATION, each.number, each.node, each.time) for each in self.progress.iterations
        ]
        for kind, number, node, time in passed:
            at_s = seconds(time)
            if node is not None and at_s is not None:
                yield Moment(kind, number, node, at_s)

    def rank_of(self, writer: Writer) -> int | None:
        """The global rank: as its lines say, else by the order of nodes."""
        if writer in self.ranks or writer.local is None:
            return self.ranks.get(writer)
        width = self.job.gpus_per_node
        if width is None or writer.node not in self.nodes:
            return None
        return self.nodes.index(writer.node) * width + writer.local

    def node_of(self, rank: int) -> str | None:
        """The node of a rank: as lines say, else by the order of nodes."""
        for writer, number in self.ranks.items():
            if number == rank and writer.node is not None:
                return writer.node
        if rank in self.rank_nodes:
            return self.rank_nodes[rank]
        width = self.job.gpus_per_node
        place = rank // width if width else len(self.nodes)
        return self.nodes[place] if place < len(self.nodes) else None

    def of(self, *kinds: str) -> list[Event]:
        """Events of these kinds that the job did not overcome."""
        return [event for event in self.events if event.kind in kinds and not event.overcome]

    def of_group(self, group: str) -> list[Event]:
        """Events of this group that the job did not overcome."""
        return [event for event in self.events if event.group == group and not event.overcome]

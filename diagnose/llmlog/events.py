"""Joining lines into events: a stack trace, an agent's summary, a line with a meaning.

Outputs of many ranks may lie in one file, so lines that continue others are joined by who prints
them (:class:`Writer`). Events of ordinary output are not kept; memory grows with what failed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from llmlog.catalogue import REACTIONS, TIMED_OUT, classify
from llmlog.clocks import ITERATION, KINDS, Moment, offsets, seconds
from llmlog.dumps import Dump, DumpError, looks_like_dump, read_dumps
from llmlog.ordinary import Ordinary
from llmlog.progress import Progress
from llmlog.reading import Job, LogFile
from llmlog.records import Record, parse
from llmlog.streams import Intake, decoded, lines

TEXT_KEPT = 4000
"""Characters of an event that are kept."""
KEPT, MOST = 100, 200_000
"""Events of one kind and writer, and of a job, that are kept."""
_APART = 2000
"""Lines of other writers within which an event continues."""
TRACEBACK = "Traceback (most recent call last):"
_DEATH = re.compile(r"watchdog thread terminated with exception: ")
_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Iteration)\b")
_CONTINUES = re.compile(
    r"^(?:\s|$|frame #|Exception raised from|terminate called|CUDA kernel errors|For debugging|"
    r"Compile with|nccl\w+: |Last error:|Bootstrap|See documentation|\S+\.py: error: )"
)
_SUMMARY_ENDS = re.compile(r"^=+$")
_NCCL_RANK = re.compile(r"\brank (\d+) n[rR]anks (\d+)")
_ADDRESS = re.compile(r"Bootstrap ?: ?Using \S+?:([\d.]+)<")
_AGENT_ERRORS = {"ChildFailedError": "report", "SignalException": "teardown"}
_OWN_PID = re.compile(r"pid[=: ]+(\d+)|python3?[:\[](\d+)|Killed process (\d+)")


class Writer(NamedTuple):
    """Who prints: a node (None: the scheduler), and a local rank (None: its agent or kernel)."""

    node: str | None
    local: int | None
    kernel: bool = False


@dataclass
class Event:
    """Lines that say one thing together.

    Attributes
    ----------
    kind, group : of the catalogue; exceptions have kind ``exception``.
    writer, rank : who printed it; the global rank if it is known.
    file, line, count : where it begins, and how many lines it has.
    text : of all its lines, without prefixes.
    fields : what the pattern of its kind found.
    role : set by ``roles``.
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

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.text) < TEXT_KEPT:
            self.text += "\n" + text[:TEXT_KEPT]

    @property
    def node(self) -> str | None:
        """The node it is about: the one it names, or the one of its writer."""
        return self.fields.get("node") or self.writer.node

    @property
    def own_pid(self) -> int | None:
        """The process that a kernel's line is about."""
        match = _OWN_PID.search(self.text) if self.writer.kernel else None
        return int(next(text for text in match.groups() if text)) if match else None


@dataclass
class Evidence:
    """All that the logs of a job tell."""

    job: Job
    nodes: tuple[str, ...]
    events: list[Event] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    ranks: dict[Writer, int] = field(default_factory=dict)
    pids: dict[tuple[str, int], int] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    dumps: dict[int, Dump] = field(default_factory=dict)
    dump_files: dict[int, str] = field(default_factory=dict)

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
            if number == rank:
                return writer.node
        width = self.job.gpus_per_node
        place = rank // width if width else len(self.nodes)
        return self.nodes[place] if place < len(self.nodes) else None

    def of(self, *kinds: str) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]


def read_job(job: Job, intake: Intake) -> Evidence:
    """Read all files of a job."""
    evidence = Evidence(job, job.nodes)
    ordinary: dict[str, Ordinary] = defaultdict(Ordinary)
    for (_, place), parts in groupby(job.files, key=lambda file: (file.whole, file.place)):
        reader = _Reader(evidence, ordinary[place])
        for file in parts:
            if looks_like_dump(file.path):
                _read_dump(evidence, file, intake)
            else:
                reader.read(file, lines(file.path, file.name, intake))
    for event in evidence.events:
        if event.rank is None:
            event.rank = evidence.rank_of(event.writer)
    if evidence.passed_over:
        intake.notes.append(
            f"{job.name}: {evidence.passed_over} events repeat others of the same rank; "
            f"the first {KEPT - 1} of a kind and the last are kept"
        )
    return evidence


def _read_dump(evidence: Evidence, file: LogFile, intake: Intake) -> None:
    """Add the dumps of a file; of a rank that is there twice, the one that is read first."""
    try:
        found = read_dumps(file.path)
    except DumpError as error:
        intake.notes.append(f"{file.name}: {error}")
        return
    intake.dumps += len(found)
    for dump in found:
        evidence.dumps.setdefault(dump.rank, dump)
        evidence.dump_files.setdefault(dump.rank, file.name)


class _Reader:
    """Reads the parts of one file, the oldest first: joins lines of the same writer."""

    def __init__(self, evidence: Evidence, ordinary: Ordinary) -> None:
        self.evidence = evidence
        self.ordinary = ordinary
        self.open: dict[Writer, Event] = {}
        self.touched = 0

    def read(self, file: LogFile, numbered: Iterator[tuple[int, bytes]]) -> None:
        self.file = file
        for line, raw in numbered:
            if self.open and line - self.touched > _APART:
                self.open.clear()
            if not self.open and self.ordinary.knows(raw):
                continue
            record = parse(decoded(raw), file.place == "batch")
            writer = self._writer(record)
            names_process = record.rank is not None or record.tool == "nccl"
            if record.rank is not None and writer.local is not None:
                self.evidence.ranks[writer] = record.rank
            if self._continues(writer, record) or self._begins(writer, record, line):
                self.touched = line
            else:
                self.ordinary.add(raw, names_process)

    def _writer(self, record: Record) -> Writer:
        if self.file.place == "kernel":
            return Writer(self.file.node, None, kernel=True)
        node = self.file.node
        if record.number is not None and record.number < len(self.evidence.nodes):
            node = self.evidence.nodes[record.number]
        local = self.file.local if record.local is None else record.local
        return Writer(node, local)

    def _continues(self, writer: Writer, record: Record) -> bool:
        """Whether the line belongs to the open event of its writer."""
        event = self.open.get(writer)
        if event is None:
            return False
        if event.error == "ChildFailedError":
            event.add(record.text)
            if _SUMMARY_ENDS.match(record.text) and "Root Cause" in event.text:
                del self.open[writer]
            return True
        is_error = not record.tool and event.kind == "exception" and _ERROR.match(record.text)
        if is_error or (not record.tool and _CONTINUES.match(record.text)):
            event.add(record.text)
            if is_error:
                self._name(event, record.text)
            return True
        del self.open[writer]
        return False

    def _name(self, event: Event, text: str) -> None:
        """The exception of a traceback is known now."""
        name = re.split(r"[:\s]", text, maxsplit=1)[0].rsplit(".", 1)[-1]
        event.error = event.error or name
        if TIMED_OUT.search(text):
            event.kind, event.group = "timeout", "reaction"
        event.group = _AGENT_ERRORS.get(name, event.group)
        if name in _AGENT_ERRORS:
            event.kind = "summary" if event.group == "report" else "ended_by_signal"

    def _begins(self, writer: Writer, record: Record, line: int) -> bool:
        """Whether the line says something: an event, progress, or who prints."""
        text, evidence = record.text, self.evidence
        learned = self._learn(writer, record)
        if evidence.progress.read(text, self.file.name, line, record.time, writer.node):
            return True
        if text.startswith(TRACEBACK):
            self.open[writer] = self._event("exception", "fault", writer, record, line)
        elif record.tool == "c10d" and _DEATH.search(text):
            self.open[writer] = self._event("death", "fault", writer, record, line)
        elif found := classify(record.tool, text):
            kind, match = found
            if kind.group == "moment" and not record.time:
                return learned
            event = self._event(kind.name, kind.group, writer, record, line)
            event.fields = match.groupdict()
        else:
            return learned
        return True

    def _event(self, kind: str, group: str, writer: Writer, record: Record, line: int) -> Event:
        event = Event(
            kind, group, writer, record.rank, self.file.name, line, record.time,
            record.text[:TEXT_KEPT],
        )  # fmt: skip
        self.evidence.keep(event)
        return event

    def _learn(self, writer: Writer, record: Record) -> bool:
        """Ranks, processes and addresses, from NCCL's lines; whether it named more than those."""
        if record.tool != "nccl" or writer.node is None:
            return False
        local = Writer(writer.node, record.local)
        if record.pid is not None and record.local is not None:
            self.evidence.pids[writer.node, record.pid] = record.local
        rank, address = _NCCL_RANK.search(record.text), _ADDRESS.search(record.text)
        if rank:
            self.evidence.ranks[local] = int(rank[1])
        if address:
            self.evidence.addresses[address[1]] = writer.node
        return bool(rank or address)


def is_reaction(event: Event) -> bool:
    """Whether the event only says that another part does not answer."""
    return event.group == "reaction" or bool(REACTIONS.search(event.text))

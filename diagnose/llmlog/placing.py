"""Whose lines are whose, after all are read: nodes of files and tasks, ranks of processes.

What is best known counts: the accounting of the scheduler, then a host that lines name (of
their prefix, of NCCL, of a summary of torchrun), then the file's name. The number of a task is
a rank if a node has several tasks, and else the number of a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from llmlog.evidence import Event, Evidence, Writer
from llmlog.names import looks_like_node, short
from llmlog.statements import VERDICT_NAMES

TASK, FILE = "\0task ", "\0file "
"""Nodes of writers that are not known yet: of a task, of a file."""


def place(evidence: Evidence) -> None:
    """Replace what was not known while lines were read."""
    _Places(evidence).apply()


@dataclass
class _Places:
    evidence: Evidence
    names: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.evidence.job.nodes:
            self.names.setdefault(short(node), node)
        self.files = {file.name: file for file in self.evidence.job.files}
        self.tasks_are_ranks = _tasks_are_ranks(self.evidence)

    def apply(self) -> None:
        evidence = self.evidence
        evidence.rank_nodes = {r: self._name(node) for r, node in evidence.rank_nodes.items()}
        evidence.task_nodes = {t: self._name(node) for t, node in evidence.task_nodes.items()}
        addresses = {a: self._node(node) for a, node in evidence.addresses.items()}
        evidence.addresses = {a: node for a, node in addresses.items() if node is not None}
        pids = {(self._node(node), pid): local for (node, pid), local in evidence.pids.items()}
        evidence.pids = {(n, pid): local for (n, pid), local in pids.items() if n is not None}
        evidence.ranks = {self._writer(w): rank for w, rank in evidence.ranks.items()}
        evidence.ranks |= dict(self._ranks_of_tasks())
        for writer, rank in evidence.ranks.items():
            if writer.node is not None and not self._weak(writer.node):
                evidence.rank_nodes.setdefault(rank, writer.node)
        named = (event.fields.get("node") for event in evidence.events)
        self.labels = {node: node for node in (*named, *evidence.rank_nodes.values()) if node}
        for event in evidence.events:
            self._place(event)
        if not evidence.job.nodes or evidence.job.state is None:
            evidence.nodes = tuple(
                sorted({node for node in self._file_nodes() if node is not None})
            )

    def _ranks_of_tasks(self) -> Iterator[tuple[Writer, int]]:
        if self.tasks_are_ranks:
            for task in self.evidence.tasks:
                yield self._writer(Writer(f"{TASK}{task}", None)), task

    def _place(self, event: Event) -> None:
        """The writer, rank and node of one event."""
        task = (event.writer.node or "").removeprefix(TASK)
        if self.tasks_are_ranks and event.rank is None and task.isdigit():
            event.rank = int(task)
        about = event.kind in VERDICT_NAMES and bool(event.fields.get("ranks"))
        if about and event.writer.stream.startswith("pid "):  # a controller speaks of another
            event.writer = Writer(None, None)
        event.writer = self._writer(event.writer)
        if node := event.fields.get("node") or event.fields.get("address"):
            event.fields["node"] = self._name(node)
        event.rank = event.rank if (named := _named(event)) is None else named
        if event.rank is None:
            event.rank = self._rank(event)
        node = None if event.rank is None else self.evidence.rank_nodes.get(event.rank)
        node = node or self.labels.get(event.writer.stream)
        if node is not None and self._weak(event.writer.node):
            event.writer = event.writer._replace(node=node)

    def _rank(self, event: Event) -> int | None:
        """The rank of an event: by its writer, by what it names, or by a summary."""
        evidence = self.evidence
        if event.kind in ("killed", "ended") and self.tasks_are_ranks:
            return next(iter(event.numbers("tasks")), None)
        rank = evidence.rank_of(event.writer)
        if rank is not None:
            return rank
        local, pid = event.writer.local, event.numbers("pid")
        if event.fields.get("local"):
            local = next(iter(event.numbers("local")), None)
        same = [one for one in evidence.ended if one.pid in pid] or [
            one
            for one in evidence.ended
            if one.local == local
            and (self._weak(event.writer.node) or event.node == self._name(one.node))
        ]
        return same[0].rank if len({one.rank for one in same}) == 1 else None

    def _writer(self, writer: Writer) -> Writer:
        node = self._node(writer.node)
        if writer.node is not None and writer.node.startswith(TASK) and self.tasks_are_ranks:
            return writer._replace(node=node, stream=f"rank {writer.node.removeprefix(TASK)}")
        return writer._replace(node=node)

    def _node(self, name: str | None) -> str | None:
        """The node that a name stands for."""
        if name is None:
            return None
        if name.startswith(TASK):
            return self._of_task(int(name.removeprefix(TASK)))
        if name.startswith(FILE):
            return self._of_file(name.removeprefix(FILE))
        return self._name(name)

    def _of_task(self, task: int) -> str | None:
        nodes, width = self.evidence.job.nodes, self.evidence.job.gpus_per_node
        number = task // width if self.tasks_are_ranks and width else task
        listed = self.evidence.task_nodes.get(task)
        if self.tasks_are_ranks and not width:
            return listed and self._name(listed)
        known = nodes[number] if number < len(nodes) else None
        if self.tasks_are_ranks and listed:
            return self._name(listed)
        return known or (listed and self._name(listed))

    def _of_file(self, name: str) -> str | None:
        """A file's name is a node if no line of the file names another host."""
        file = self.files.get(name)
        if file is None or file.node is None:
            return None
        if len(self.files) == 1 and not (file.sure or looks_like_node(file.node)):
            return None  # one file has any name
        hosts = {short(host) for host in self.evidence.hosts.get(name, ())}
        if len(self.files) == 1:  # files of several nodes have the names that a collector gave them
            hosts |= {short(host) for host in self.evidence.named.get(name, ())}
        return self._name(file.node) if not hosts or short(file.node) in hosts else None

    def _weak(self, node: str | None) -> bool:
        """Whether a node is none, or only the name of a file."""
        return node is None or any(
            node == file.node and not file.sure for file in self.files.values()
        )

    def _file_nodes(self) -> Iterator[str | None]:
        for name in self.files:
            yield self._of_file(name)

    def _name(self, name: str) -> str:
        """One name for each node: that of the scheduler, else the first that was seen."""
        return self.names.setdefault(short(name), name)


def _named(event: Event) -> int | None:
    """The rank that an event is about by its text; None if it names none."""
    about = event.kind in VERDICT_NAMES and event.group != "awaited"
    return next(iter(event.numbers("ranks")), None) if about else None


def _tasks_are_ranks(evidence: Evidence) -> bool:
    """Whether each process that a launcher numbers is one rank."""
    tasks, nodes = evidence.tasks, evidence.job.nodes
    listed = list(evidence.task_nodes.values())
    if len(set(listed)) < len(listed):
        return True
    if not tasks:
        return False
    if any(local is not None for locals_ in tasks.values() for local in locals_):
        return False
    pairs = evidence.task_ranks
    if any(task != rank for task, rank in pairs):
        return False
    return max(tasks) >= len(nodes)

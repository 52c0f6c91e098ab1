"""A Chakra execution trace: the computation, messages and collectives of every rank.

Compute nodes take their recorded duration, or the duration of their operations at a given rate.
Communication is simulated. The members of a process group come from the trace's metadata or
from the scenario; a collective without a group includes all ranks.

The size of a collective is the size of each rank's input buffer, as in ASTRA-sim and the PyTorch
converter: after an all-gather of S bytes among n ranks, each rank has n S bytes.

A node called ``ProfilerStep#7`` begins a training step; other nodes belong to the latest
step that they depend on. A trace without such nodes is one step.

References: Sridharan et al., Chakra: Advancing performance benchmarking and co-design using
standardized execution traces, arXiv 2305.14516; https://github.com/mlcommons/chakra;
https://github.com/astra-sim/astra-sim, ``astra-sim/workload/Workload.cc``.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from prism_common.errors import UserError
from prism_common.kinds import GroupKind
from prism_sim.importers import consistency
from prism_sim.importers.base import LARGEST_BYTES, Remark, TraceProblems, unread
from prism_sim.importers.chakra_files import Node, nodes_of, rank_files
from prism_sim.importers.chakra_groups import ALL_RANKS, ProcessGroups, one_word
from prism_sim.importers.graph_file import GraphFile
from prism_sim.scenario.graph import Graph, GroupSet, RankNumber, Task
from prism_sim.scenario.timings import LONGEST_NS

COLLECTIVES = (
    "ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL",
    "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER",
)  # fmt: skip
"""Names of collectives by their numbers in ``comm_type``."""

OPERATIONS = {
    "ALL_REDUCE": "all_reduce",
    "ALL_GATHER": "all_gather",
    "BROADCAST": "broadcast",
    "ALL_TO_ALL": "all_to_all",
    "REDUCE_SCATTER": "reduce_scatter",
    "REDUCE_SCATTER_BLOCK": "reduce_scatter",
}
"""Collectives that can be expressed."""

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")


class Chakra(GraphFile):
    """The tasks of every rank, from a Chakra execution trace of one file a rank."""

    kind: Literal["chakra"] = "chakra"
    groups: dict[str, tuple[RankNumber, ...]] = Field(default={})
    """Ranks of each process group by its pg_name, as in ASTRA-sim's communicator group file. Left
    out: the groups in the trace's metadata."""
    kinds: dict[str, GroupKind] = Field(default={})
    """Kind of traffic of process groups by pg_name. Left out: ep for those with all-to-alls, dp for
    others."""
    tflops: float | None = Field(default=None, ge=1e-6, le=1e12)
    """Rate of compute nodes that have operations (num_ops) and no duration [TFLOP/s]."""

    def read(self, path: Path, remark: Remark = unread) -> Graph:
        files = rank_files(path)
        found = TraceProblems()
        nodes: list[list[Node]] = []
        for file in files:
            try:
                nodes.append(nodes_of(file))
            except UserError as error:
                found.add_all(error)
        found.refuse()
        groups = ProcessGroups(self.groups, len(files), found)
        for rank, own in enumerate(nodes):
            groups.learn(own, str(files[rank]), rank)
        ranks = [_Rank(rank, str(files[rank]), self, groups, found) for rank in range(len(files))]
        programs = [rank.program(own) for rank, own in zip(ranks, nodes, strict=True)]
        found.refuse()
        lost = sum(_outside(own) for own in nodes)
        if lost:
            remark(f"{lost:,} control dependencies on nodes that the trace does not have are met")
        families = groups.families(programs, self.kinds, str(path))
        found.refuse()
        consistency.check(programs, families, lambda r, i: ranks[r].place(i), found)
        found.refuse()
        return _graph(programs, families)


def _outside(nodes: Sequence[Node]) -> int:
    """Number of control dependencies on nodes that a rank's trace does not have.

    The converter of PyTorch traces removes nodes, such as the root of the process, and leaves the
    control dependencies on them. Chakra's own feeder follows data dependencies only.
    """
    known = {node.id for node in nodes}
    return sum(dep not in known for node in nodes for dep in node.control_deps)


class _Rank:
    """Translates the nodes of one rank."""

    def __init__(
        self, rank: int, file: str, trace: Chakra, groups: ProcessGroups, found: TraceProblems
    ) -> None:
        self._rank = rank
        self._file = file
        self._trace = trace
        self._groups = groups
        self._found = found
        self._order: list[Node] = []

    def place(self, number: int) -> str:
        """The location of the program's task ``number`` in the trace."""
        if number >= len(self._order):
            return self._file
        node = self._order[number]
        return f"{self._file}: node {node.id}" + (f" ({node.name})" if node.name else "")

    def program(self, nodes: Sequence[Node]) -> list[Task]:
        """The rank's tasks, each after its dependencies."""
        self._order = order = self._sorted(nodes)
        numbers = {node.id: number for number, node in enumerate(order)}
        steps: list[int] = []
        tasks: list[Task] = []
        for number, node in enumerate(order):
            after = tuple(sorted({numbers[d] for d in node.deps if d in numbers}))
            marker = _STEP.search(node.name)
            before = max((steps[earlier] for earlier in after), default=-1)
            steps.append(int(marker[1]) if marker else before)
            translate = _TRANSLATIONS.get(node.type, _Rank._refused)
            task = translate(self, node, self.place(number))
            tasks.append(task._replace(after=after, step=steps[-1], name=node.name))
        return tasks

    def _sorted(self, nodes: Sequence[Node]) -> list[Node]:
        """Nodes in topological order; ties are ordered by number."""
        by_id = {node.id: node for node in nodes}
        if len(by_id) != len(nodes):
            self._found.add(f"{len(nodes) - len(by_id)} node ids are not unique", self._file)
        waits: dict[int, int] = {}
        after: dict[int, list[int]] = defaultdict(list)
        for node in by_id.values():
            known = node.deps & by_id.keys()
            for lost in sorted(set(node.data_deps) - known)[:1]:
                what = f"it depends on node {lost}, which does not exist"
                where = f"{self._file}: node {node.id} ({node.name})"
                self._found.add(what, where, "the file is truncated, or nodes were removed")
            waits[node.id] = len(known)
            for dep in known:
                after[dep].append(node.id)
        ready = [number for number, count in waits.items() if not count]
        heapq.heapify(ready)
        order: list[Node] = []
        while ready:
            node = by_id[heapq.heappop(ready)]
            order.append(node)
            for later in after[node.id]:
                waits[later] -= 1
                if not waits[later]:
                    heapq.heappush(ready, later)
        if len(order) < len(by_id):
            stuck = sorted(number for number, count in waits.items() if count)
            what = f"nodes {', '.join(map(str, stuck[:8]))} depend on each other in a cycle"
            self._found.add(what, self._file, "dependencies must not lead back to a node")
        return order

    def _compute(self, node: Node, where: str) -> Task:
        duration_ns = self._duration_ns(node.duration_micros * 1000, where)
        operations = self._number(node, "num_ops", where, default=0)
        if node.attrs.get("is_cpu_op") is True:
            return Task("host", duration_ns)
        if not duration_ns and operations:
            if self._trace.tflops is None:
                what = f"it has {operations} operations, but no duration"
                self._found.add(what, where, "give their rate: tflops in the trace")
                return Task("wait")
            needed_ns = round(operations / (self._trace.tflops * 1e3))
            duration_ns = self._duration_ns(needed_ns, where)
        return Task("compute", duration_ns)

    def _duration_ns(self, duration_ns: int, where: str) -> int:
        return self._found.bounded(duration_ns, LONGEST_NS, "its duration [ns]", where)

    def _nothing(self, node: Node, where: str) -> Task:
        return Task("wait")

    def _send(self, node: Node, where: str) -> Task:
        return self._message("send", node, ("comm_src", "comm_dst"), where)

    def _recv(self, node: Node, where: str) -> Task:
        return self._message("recv", node, ("comm_dst", "comm_src"), where)

    def _message(self, kind: str, node: Node, ends: tuple[str, str], where: str) -> Task:
        own = self._number(node, ends[0], where, default=self._rank)
        peer = self._number(node, ends[1], where)
        if own != self._rank:
            self._found.add(f"{ends[0]} is {own} in the trace of rank {self._rank}", where)
        if peer == self._rank:
            self._found.add(f"rank {peer} sends a message to itself", where)
        size = self._size(node, where)
        tag = self._number(node, "comm_tag", where, default=0)
        return Task(kind, size, peer=peer, tag=tag)

    def _collective(self, node: Node, where: str) -> Task:
        number = self._number(node, "comm_type", where)
        name = COLLECTIVES[number] if number < len(COLLECTIVES) else f"number {number}"
        if name not in OPERATIONS:
            known = ", ".join(OPERATIONS)
            self._found.add(f"collective {name} is not modelled", where, f"known here: {known}")
            return Task("wait")
        self._refuse_dimensions(node, where)
        family = one_word(str(node.attrs.get("pg_name") or ALL_RANKS))
        group = self._groups.of(family, self._rank)
        if group is None or self._rank not in group:
            lacks = "has unknown members" if group is None else f"lacks rank {self._rank}"
            how = "list its members in the trace's groups: groups: {NAME: [0, 1, ...]}"
            self._found.add(f"process group {family!r} {lacks}", where, how)
            return Task("wait")
        size = self._size(node, where)
        if name == "ALL_GATHER":
            size *= len(group)
        if len(group) == 1:
            return Task("wait")
        return Task("collective", size, operation=OPERATIONS[name], family=family)

    def _refuse_dimensions(self, node: Node, where: str) -> None:
        involved = node.attrs.get("involved_dim")
        if isinstance(involved, list) and not all(involved) and "pg_name" not in node.attrs:
            what = "involved_dim names dimensions of ASTRA-sim's network, which is not this one"
            self._found.add(what, where, "give the node a pg_name, and its ranks in groups")

    def _refused(self, node: Node, where: str) -> Task:
        how = "remove it from the trace, and pass its dependencies to its successors"
        self._found.add(f"nodes of type {node.type} are not modelled", where, how)
        return Task("wait")

    def _size(self, node: Node, where: str) -> int:
        size = self._number(node, "comm_size", where)
        size = self._found.bounded(size, LARGEST_BYTES, "comm_size", where)
        if size == 0 and "comm_size" in node.attrs:
            self._found.add("it moves no bytes: comm_size is 0", where)
        return size

    def _number(self, node: Node, name: str, where: str, default: int | None = None) -> int:
        value: Any = node.attrs.get(name, default)
        if isinstance(value, (int, float)) and 0 <= value < 2**62 and value == int(value):
            return int(value)
        wrong = "is missing" if value is None else f"is {value!r}; it must be an integer"
        self._found.add(f"{name} {wrong}", where)
        return 0


_TRANSLATIONS = {
    "METADATA_NODE": _Rank._nothing,
    "COMP_NODE": _Rank._compute,
    "COMM_SEND_NODE": _Rank._send,
    "COMM_RECV_NODE": _Rank._recv,
    "COMM_COLL_NODE": _Rank._collective,
}
"""The function that converts each type of node to a task; other types are refused."""


def _graph(programs: Sequence[Sequence[Task]], families: dict[str, GroupSet]) -> Graph:
    steps = sorted({task.step for program in programs for task in program} - {-1})
    numbers = {step: number for number, step in enumerate(steps)} | {-1: 0}
    return Graph(
        families=families,
        programs=tuple(
            tuple(task._replace(step=numbers[task.step]) for task in program)
            for program in programs
        ),
        ranks=tuple(range(len(programs))),
        steps=max(1, len(steps)),
        tp=_neighbours(families),
    )


def _neighbours(families: Mapping[str, GroupSet]) -> int:
    """Size of the tensor-parallel groups, if they are blocks of neighbouring ranks."""
    groups = [group for family in families.values() if family.kind == "tp"
              for group in family.groups]  # fmt: skip
    sizes = {len(group) for group in groups}
    if len(sizes) != 1:
        return 1
    (size,) = sizes
    blocks = all(g[0] % size == 0 and g == tuple(range(g[0], g[0] + size)) for g in groups)
    return size if blocks else 1

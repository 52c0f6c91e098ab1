"""Consistency of the programs of all ranks: every send needs a matching receive.

A group's collectives are matched by sequence number, messages by sender, receiver, tag and
sequence number. The sequence is the order in the program, so every rank must have the same order.
A run through the programs without time shows whether all tasks can start.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from prism_sim.importers.base import TraceProblems
from prism_sim.scenario.graph import GroupSet, Task

Place = Callable[[int, int], str]
"""The location of a task in the trace, by rank and number."""

Node = tuple[int, int]
"""A task by rank and number in its program."""

_BOTH = ("send", "recv")


def check(
    programs: Sequence[Sequence[Task]],
    families: Mapping[str, GroupSet],
    place: Place,
    found: TraceProblems,
) -> None:
    """Add all inconsistencies between the ranks' programs to ``found``."""
    messages = _messages(programs, place, found)
    collectives = _collectives(programs, families, place, found)
    if not found:
        _check_order(programs, messages, collectives, place, found)


def _messages(
    programs: Sequence[Sequence[Task]], place: Place, found: TraceProblems
) -> list[tuple[Node, Node]]:
    """Every send with its receive."""
    sides: dict[str, dict[tuple[int, int, int], list[Node]]] = {k: defaultdict(list) for k in _BOTH}
    for rank, program in enumerate(programs):
        for number, task in enumerate(program):
            if task.kind in _BOTH:
                ends = (rank, task.peer) if task.kind == "send" else (task.peer, rank)
                sides[task.kind][*ends, task.tag].append((rank, number))
    pairs: list[tuple[Node, Node]] = []
    for key in sorted(sides["send"].keys() | sides["recv"].keys()):
        sent, expected = sides["send"].get(key, []), sides["recv"].get(key, [])
        src, dst, tag = key
        for rank, number in (*sent[len(expected) :], *expected[len(sent) :]):
            other = "recv" if programs[rank][number].kind == "send" else "send"
            what = f"no {other} matches this message from rank {src} to {dst}, tag {tag}"
            found.add(what, place(rank, number), "both ends need the same tag")
        for a, b in zip(sent, expected, strict=False):
            sizes = [programs[r][n].amount for r, n in (a, b)]
            if sizes[0] != sizes[1]:
                what = f"{sizes[0]} bytes are sent, but {sizes[1]} are expected at {place(*b)}"
                found.add(what, place(*a))
            pairs.append((a, b))
    return pairs


def _collectives(
    programs: Sequence[Sequence[Task]],
    families: Mapping[str, GroupSet],
    place: Place,
    found: TraceProblems,
) -> list[list[Node]]:
    """The tasks of every collective, one a member."""
    turns = [_turns(program) for program in programs]
    made: list[list[Node]] = []
    for name, family in families.items():
        for group in family.groups:
            by_rank = [turns[rank].get(name, []) for rank in group]
            most = max(map(len, by_rank))
            for rank, own in zip(group, by_rank, strict=True):
                if len(own) < most:
                    what = f"rank {rank} takes part in {len(own)} of {most} collectives of {name}"
                    where = place(rank, own[-1] if own else 0)
                    found.add(what, where, f"all of ranks {_listed(group)} must")
            for tasks in zip(*by_rank, strict=False):
                nodes = list(zip(group, tasks, strict=True))
                made.append(nodes)
                _check_alike(programs, nodes, name, place, found)
    return made


def _turns(program: Sequence[Task]) -> dict[str, list[int]]:
    """Numbers of a program's collectives, by family."""
    own: dict[str, list[int]] = defaultdict(list)
    for number, task in enumerate(program):
        if task.kind == "collective":
            own[task.family].append(number)
    return own


def _check_alike(
    programs: Sequence[Sequence[Task]],
    nodes: list[Node],
    name: str,
    place: Place,
    found: TraceProblems,
) -> None:
    first = programs[nodes[0][0]][nodes[0][1]]
    for rank, number in nodes[1:]:
        task = programs[rank][number]
        if (task.operation, task.amount) != (first.operation, first.amount):
            here, there = (f"{t.operation} of {t.amount} bytes" for t in (task, first))
            what = f"group {name}: {here}, where {place(*nodes[0])} has {there}"
            found.add(what, place(rank, number), "members must call the same in the same order")


def _check_order(
    programs: Sequence[Sequence[Task]],
    messages: list[tuple[Node, Node]],
    collectives: list[list[Node]],
    place: Place,
    found: TraceProblems,
) -> None:
    """Run through all programs without time; a task that never starts is part of a cycle."""
    after: dict[Node, list[Node]] = defaultdict(list)
    waits: dict[Node, int] = {}
    for rank, program in enumerate(programs):
        for number, task in enumerate(program):
            waits[rank, number] = len(set(task.after))
            for before in set(task.after):
                after[rank, before].append((rank, number))
        for own in _turns(program).values():  # a group runs one collective after another
            for before, number in pairwise(own):
                after[rank, before].append((rank, number))
                waits[rank, number] += 1
    for sent, expected in messages:
        after[sent].append(expected)
        waits[expected] += 1
    together = {node: nodes for nodes in collectives for node in nodes}
    missing = {nodes[0]: len(nodes) for nodes in collectives}
    for node in _in_order(waits, after, together, missing):
        del waits[node]
    for (rank, number), _ in sorted(waits.items())[:3]:
        what = f"task {programs[rank][number].name!r} can never start: it waits for itself"
        how = "dependencies, messages and collectives form a cycle"
        found.add(what, place(rank, number), how)


def _in_order(
    waits: Mapping[Node, int],
    after: Mapping[Node, list[Node]],
    together: Mapping[Node, list[Node]],
    missing: dict[Node, int],
) -> Iterator[Node]:
    """Tasks in an order in which they can finish; the others are left out."""
    left = dict(waits)
    ready = deque(node for node, count in left.items() if not count)
    while ready:
        node = ready.popleft()
        over = [node]
        if node in together:
            first = together[node][0]
            missing[first] -= 1
            over = [] if missing[first] else together[node]
        for done in over:
            yield done
            for later in after.get(done, ()):
                left[later] -= 1
                if not left[later]:
                    ready.append(later)


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return shown + (", ..." if len(ranks) > 8 else "")

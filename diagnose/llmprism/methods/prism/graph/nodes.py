"""Operations of a job: what is sent in every step, with the times at which ranks take part.

An *operation* is a message of a pipeline, or one collective of a communicator. The bursts of a
connection in a step are numbered; the connections of a communicator have equally many, one for
each operation (*slot*). In steps that have another number of bursts, since a slow hop leaves
silences or a record is lost, bursts are matched with slots by the bytes sent before them. Where
connections of a communicator differ, or their numbers vary, all of a step is one operation. So it
is where a ring is silent in the middle until its last rank joins.

A rank *joins* an operation when the first of its connections begins; an *arrival* is the end of
what it receives. A hop of a collective begins when both of its ends have joined, so the earliest
begin is the latest moment at which a rank can have joined. Where a last hop begins alone, a rank at
either of its ends joined last. Where a ring passes several ranks of a server, what its hops send
before they are silent tells which one (:mod:`~.silent_rings`). A rank that only sends or only
receives goes on inside its server; it joins with the ranks there.

Where a record holds several messages of a pipeline, only the first start and the last end of a
step are known. They are two operations without a duration. Most such records of a kind last for
much longer than their bytes take, since they hold the passes between messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.graph.bursts import Bursts, bursts_of
from llmprism.methods.prism.graph.collectives import collectives_of, ring_numbers
from llmprism.methods.prism.graph.silent_rings import Homes, Late, earliest, homes_of, late_ranks
from llmprism.methods.prism.graph.slots import Silences, Slots, slots_of
from llmprism.methods.prism.parameters import IRREGULAR, MERGED
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.graph import components_of_edges

COLLECTIVES = ("tp", "ep", "cp")


@dataclass(frozen=True)
class Communicator:
    """Connections that move data together: a ring, an exchange, or one hop of a pipeline.

    Attributes
    ----------
    kind : of its traffic.
    connections : their numbers.
    size_bytes : what its busiest connection moves in a usual step.
    """

    kind: str
    connections: Ints
    size_bytes: float


@dataclass(frozen=True)
class Nodes:
    """Operations of one job, and who takes part. Times in ns after ``origin_ns``; NaN: unknown.

    Attributes
    ----------
    communicators : in order of their numbers.
    communicator : number of the communicator of each operation, shape (operations,).
    begin, end : last join and last end of each operation, shape (operations, steps).
    operation, rank : of each participation, shape (participations,).
    join, arrive : when a rank joins, and when it has received all, (participations, steps).
    """

    communicators: tuple[Communicator, ...]
    communicator: Ints
    begin: Floats
    end: Floats
    operation: Ints
    rank: Ints
    join: Floats
    arrive: Floats

    @cached_property
    def are_messages(self) -> Bools:
        """Which operations are messages of a pipeline, shape (operations,)."""
        return np.array([one.kind == "pp" for one in self.communicators])[self.communicator]


@dataclass
class _Gathered:
    """Parts of :class:`Nodes` while they are collected."""

    steps: int
    communicators: list[Communicator] = field(default_factory=list)
    communicator: list[Ints] = field(default_factory=list)
    times: list[tuple[Floats, Floats]] = field(default_factory=list)
    parts: list[tuple[Ints, Ints, Floats, Floats]] = field(default_factory=list)
    count: int = 0

    def add(self, of: Communicator, begin: Floats, end: Floats) -> Ints:
        """Add operations of one communicator, shape (slots, steps); return their numbers."""
        numbers = self.count + np.arange(len(begin))
        self.communicator.append(np.full(len(begin), len(self.communicators)))
        self.communicators.append(of)
        self.times.append((begin, end))
        self.count += len(begin)
        return numbers

    def take_part(
        self, operation: Ints, rank: int, join: Floats | None, arrive: Floats | None
    ) -> None:
        """A rank takes part in operations; both times have shape (operations, steps)."""
        none = np.full((operation.size, self.steps), np.nan)
        joins, arrivals = none if join is None else join, none if arrive is None else arrive
        self.parts.append((operation, np.full(operation.size, rank), joins, arrivals))

    def nodes(self) -> Nodes | None:
        if not self.count:
            return None
        begin, end = (np.concatenate(one) for one in zip(*self.times, strict=True))
        operation, rank, join, arrive = (
            np.concatenate(one) for one in zip(*self.parts, strict=True)
        )
        return Nodes(
            tuple(self.communicators), np.concatenate(self.communicator), begin, end,
            operation, rank, join, arrive,
        )  # fmt: skip


def nodes_of(context: Context, job: JobView) -> Nodes | None:
    """The operations of ``job``; None if it has none."""
    gathered = _Gathered(job.count)
    place = np.full(len(context.flows.addresses), -1)
    place[job.phases.endpoints] = np.arange(job.phases.endpoints.size)
    homes = homes_of(context.topology, job, place)
    every = [(part, label, bursts_of(context, job, part)) for part, label in _parts(context, job)]
    every = [one for one in every if one[2].place.size]
    paces = [_paces(bursts, part.connections.size) for part, _, bursts in every]
    fastest = max((float(np.nanmax(pace)) for pace in paces), default=0.0)
    for pace in paces:
        part, label, bursts = every.pop(0)  # they are as large as all records
        slots = slots_of(bursts, part.connections.size, job.count, job.ranks.origin_ns)
        if part.kind == "pp" and np.nanmedian(pace) < MERGED * fastest:
            slots = replace(slots, regular=np.zeros_like(slots.regular))
        own = part.connections
        src, dst = (place[side[own]] for side in (context.connections.src, context.connections.dst))
        for lanes in _communicators(label, slots.count > 0):
            ends = src[lanes], dst[lanes]
            _add(gathered, homes, part.kind, own[lanes], ends, slots, lanes)
    return gathered.nodes()


def _paces(bursts: Bursts, connections: int) -> Floats:
    """Bytes in a ns of each connection, median over its bursts; NaN where it has none."""
    pace = bursts.size / np.maximum(bursts.end_ns - bursts.start_ns, 1)
    median = np.full(connections, np.nan)
    for own in np.split(np.arange(pace.size), np.flatnonzero(np.diff(bursts.place)) + 1):
        median[bursts.place[own[0]]] = np.median(pace[own])
    return median


def _parts(context: Context, job: JobView) -> Iterator[tuple[KindOf, Ints]]:
    """Classes of connections, and the communicator of each connection within the class."""
    src, dst = context.connections.src, context.connections.dst
    rings = ring_numbers(context, job)
    for part in collectives_of(context, job):
        yield part, rings[part.connections]
    for part in job.phases.classes:
        own = part.connections
        if part.kind == "pp":
            yield part, np.arange(own.size)
        elif part.kind in COLLECTIVES:
            yield part, components_of_edges(src[own], dst[own]).astype(np.int64)


def _communicators(label: Ints, has_bursts: Bools) -> Iterator[Ints]:
    """Connections of each label, those without bursts left out."""
    order = np.argsort(label, kind="stable")
    for lanes in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
        kept = lanes[has_bursts[lanes]]
        if kept.size:
            yield kept


def _add(
    gathered: _Gathered, homes: Homes, kind: str, connections: Ints, ends: tuple[Ints, Ints],
    slots: Slots, lanes: Ints,
) -> None:  # fmt: skip
    """Add the operations of one communicator."""
    number = int(slots.count[lanes[0]])
    regular = bool((slots.count[lanes] == number).all() and slots.regular[lanes].all())
    start, end = slots.times(lanes, number if regular else 1)
    if regular and not _is_mostly_known(start, end):
        regular = False
        start, end = slots.times(lanes, 1)
    of = Communicator(kind, connections, float(slots.size_bytes[lanes].max()))
    if kind != "pp":
        silences = slots.silences(lanes, number) if regular else None
        _add_collective(gathered, homes, of, ends, (start, end), silences)
    elif regular:
        operations = gathered.add(of, start[0], end[0])
        gathered.take_part(operations, int(ends[0][0]), start[0], None)
        gathered.take_part(operations, int(ends[1][0]), None, end[0])
    else:
        times = np.concatenate((start[0], end[0]))
        operations = gathered.add(of, times, np.full_like(times, np.nan))
        gathered.take_part(operations, int(ends[0][0]), times, None)
        gathered.take_part(operations, int(ends[1][0]), None, times)


def _is_mostly_known(start: Floats, end: Floats) -> bool:
    """Whether all connections show where each operation begins and ends, in enough steps.

    A ring whose last rank joins late is silent until then, at all hops but those of this rank.
    """
    whole = np.isfinite(start).all(axis=0) & np.isfinite(end).all(axis=0)
    return bool((whole.mean(axis=1) >= IRREGULAR).all())


def _add_collective(
    gathered: _Gathered, homes: Homes, of: Communicator, ends: tuple[Ints, Ints],
    times: tuple[Floats, Floats], silences: Silences | None,
) -> None:  # fmt: skip
    """Add the operations of a collective; ``times`` have shape (connections, slots, steps)."""
    start, end = times
    late = late_ranks(homes, ends, start, silences)
    members, begin = earliest(ends, late.joins)
    arrive = np.full_like(begin, -np.inf)
    np.maximum.at(arrive, np.searchsorted(members, ends[1]), np.nan_to_num(end, nan=-np.inf))
    both = np.isin(members, ends[0]) & np.isin(members, ends[1])
    _join_inside(begin, homes.servers[members], both)
    begin[np.isinf(begin)] = np.nan
    arrive[np.isinf(arrive)] = np.nan
    last_join = np.fmax.reduce(begin, axis=0)
    _join_late(begin, last_join, members, late)
    last_join[~np.isfinite(start).all(axis=0)] = np.nan
    last_end = np.where(np.isfinite(end).all(axis=0), np.fmax.reduce(end, axis=0), np.nan)
    operations = gathered.add(of, last_join, last_end)
    for member, rank in enumerate(members.tolist()):
        gathered.take_part(operations, rank, begin[member], arrive[member])


def _join_inside(begin: Floats, server: Codes, both: Bools) -> None:
    """Ranks that do not both send and receive join with the first one of their server."""
    for home in np.unique(server[~both]).tolist():
        inside = server == home
        begin[inside & ~both] = begin[inside].min(axis=0)


def _join_late(begin: Floats, last_join: Floats, members: Ints, late: Late) -> None:
    """Ranks that the others waited for join when the collective goes on."""
    last_join[late.slot, late.step] = late.until_ns
    own = np.isin(late.rank, members)
    rank, slot, step = np.searchsorted(members, late.rank[own]), late.slot[own], late.step[own]
    begin[rank, slot, step] = late.until_ns[own]

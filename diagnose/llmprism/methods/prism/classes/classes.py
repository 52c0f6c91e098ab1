"""Classes: the connections of one part of the network that behave alike.

Training traffic circulates (:mod:`~llmprism.methods.prism.classes.circles`). A *component* is a
part of the network in which it does.

Within a component, connections of similar volume, record size and symmetry form a class. Where
several endpoints send to a single one, and nothing else is alike, nothing circulates either, though
a ring leads through all of them: that is no class of the job, but traffic that meets its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.answers import find_answers
from llmprism.methods.prism.classes.circles import circles, circulating, components
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.parameters import EQUAL, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.records.repeated_sizes import are_messages
from llmprism.methods.prism.records.sampled import allowed
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

VOLUME_STEP = 0.15  # members of a class differ from the next one by less (in logarithm)
RECORD_STEP = 0.3  # ... in the typical record of a connection (in logarithm)
MOSTLY_ONE, MOSTLY_OTHERS = 0.95, 0.7  # share of bytes in messages of the usual size
EXCHANGED = 0.75  # share of connections that move at once: all in an exchange, half in passes
SENDERS = 3  # to one endpoint: the root of a tree gets something from two


@dataclass(frozen=True)
class TrafficClass:
    """Connections that behave alike.

    Attributes
    ----------
    connections : their numbers.
    two_way : whether each direction of a pair of addresses carries about as much as the other.
    traffic : their data-carrying records on one line.
    circulates : whether all endpoints get something from others in these connections alone, and
        send something: rings do, and ranks that write to a server do not.
    """

    connections: Ints
    two_way: bool
    traffic: Traffic
    circulates: bool = True

    @cached_property
    def bytes(self) -> float:
        """Volume of all records [bytes]."""
        return float(self.traffic.size.sum())

    @cached_property
    def concurrency(self) -> float:
        """Share of the connections that move at the same time while any of them does, on average.

        Nearly all of them do in a collective, and few in a pipeline.
        """
        start, end = self.traffic.start_ns, self.traffic.end_ns
        idle = np.maximum(self.traffic.rests_ns(), 0).sum()
        busy = max(int(end.max() - start[0] - idle), 1)
        return float((end - start).sum() / (busy * self.connections.size))

    @property
    def passes(self) -> bool:
        """Whether it may be that of a pipeline, now one way and now the other."""
        return self.two_way and self.concurrency < EXCHANGED

    def cells(self, connections: Connections, step: Codes, count: int) -> tuple[Ints, Ints]:
        """Records whose step is known, and the cell of each: its connection and its step.

        Cells have the number ``place * count + step``, where ``place`` is the index of the
        connection in this class.
        """
        known = np.flatnonzero((step >= 0) & (step < count))
        place = np.zeros(connections.src.size, np.int64)
        place[self.connections] = np.arange(self.connections.size) * count
        return known, place[connections.of_row[self.traffic.row[known]]] + step[known]

    def volumes(self, connections: Connections, step: Codes, count: int) -> Floats:
        """Bytes that each connection moves in each step, shape (connections, count)."""
        known, cell = self.cells(connections, step, count)
        cells = self.connections.size * count
        total = np.bincount(cell, self.traffic.size[known], cells).astype(np.float64)
        return total.reshape(-1, count)


@dataclass(frozen=True)
class Component:
    """A part of the network in which traffic circulates.

    Attributes
    ----------
    endpoints : endpoint codes, sorted.
    classes : its traffic, in order of volume.
    """

    endpoints: Codes
    classes: tuple[TrafficClass, ...]


def find_components(flows: FlowTable, connections: Connections, use: Bools) -> list[Component]:
    """Components of the connections in ``use``, each with its classes; ordered by first record."""
    chosen = circulating(connections, np.flatnonzero(use), len(flows.addresses))
    found = []
    for own in circles(flows, connections, chosen):
        ends = np.unique(np.concatenate((connections.src[own], connections.dst[own])))
        found.append(Component(ends.astype(np.int32), _classes(flows, connections, own)))
    return found


def united(parts: Sequence[Component], flows: FlowTable, connections: Connections) -> Component:
    """One component of all connections of ``parts``."""
    ends = np.unique(np.concatenate([part.endpoints for part in parts]))
    own = np.concatenate([one.connections for part in parts for one in part.classes])
    return Component(ends.astype(np.int32), _classes(flows, connections, np.sort(own)))


def _classes(flows: FlowTable, connections: Connections, own: Ints) -> tuple[TrafficClass, ...]:
    """Classes of the connections ``own``, by volume, typical record and sizes; largest first."""
    answers = find_answers(connections, own)
    two_way = answers.lesser > 0
    volume = connections.total_bytes.astype(np.float64)
    volume[own[two_way]] *= answers.lesser[two_way]
    both_ways = connections.typical_bytes.copy()
    both_ways[own] = np.maximum(both_ways[own], answers.record)
    classes = []
    for both in (True, False):
        among = own[two_way == both]
        for by_volume in _split(among, volume, VOLUME_STEP, connections.sample_bytes):
            for by_record in _split_by_record(connections, by_volume, both_ways, both):
                parts = _split_by_sizes(connections, by_record) if both else [by_record]
                for alike in parts:
                    if not both and _meets(connections, alike):
                        continue
                    traffic = traffic_of(flows, connections, alike)
                    closed = bool(_on_circles(connections, alike).all())
                    classes.append(TrafficClass(alike, both, traffic, closed))
    return tuple(sorted(classes, key=lambda c: -c.bytes))


def _meets(connections: Connections, own: Ints) -> bool:
    """Whether connections without answers, of several senders, all lead to one endpoint.

    One whose traffic nobody sees may answer.
    """
    if connections.to_unseen is not None and connections.to_unseen[own].any():
        return False
    one_end = np.unique(connections.dst[own]).size == 1
    return one_end and np.unique(connections.src[own]).size >= SENDERS


def _split_by_record(
    connections: Connections, own: Ints, both_ways: Ints, both: bool
) -> list[Ints]:
    """Part connections by their typical record, or by that of both directions where one is alone.

    An exporter that bridges silences merges more messages of one direction of a pipeline than of
    the other. Each direction alone leads from stage to stage and never back. Two rings of opposite
    directions are closed, so they stay apart. A few hops of a ring are not, whatever they merge.
    """
    per_sample = connections.sample_bytes
    parts = _split(own, connections.typical_bytes, RECORD_STEP, per_sample)
    if not both or len(parts) == 1:
        return parts
    record = connections.typical_bytes.copy()
    for part in parts:
        alone = part[~_on_circles(connections, part)]
        record[alone] = both_ways[alone]
    parts = _split(own, record, RECORD_STEP, per_sample)
    return parts if all(_on_circles(connections, part).all() for part in parts) else [own]


def _on_circles(connections: Connections, own: Ints) -> Bools:
    """Which connections are part of a circle of them."""
    src, dst = connections.src[own], connections.dst[own]
    label = components(int(max(src.max(), dst.max())) + 1, src, dst)
    inside: Bools = label[src] == label[dst]
    return inside


def _split_by_sizes(connections: Connections, own: Ints) -> list[Ints]:
    """Part couples whose messages all have one size from those with several, if all are either.

    A pipeline sends activations and gradients of one size. Two replicas exchange buckets, which
    may happen to be as large. Pieces of messages, which a slow link makes, show nothing.
    """
    rows = np.concatenate([connections.by.rows(c) for c in own.tolist()])
    rows = rows[~connections.small[rows]]
    size, place = connections.size[rows], np.searchsorted(own, connections.of_row[rows])
    usual = connections.typical_bytes[own][place]
    near = np.abs(size - usual) <= EQUAL * usual
    moved = np.bincount(place, size, own.size)
    share = np.bincount(place, size * near, own.size) / np.maximum(moved, 1.0)
    ends = np.sort(np.stack((connections.src[own], connections.dst[own])), axis=0)
    couple = np.unique(ends, axis=1, return_inverse=True)[1]
    least = np.full(int(couple.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least, couple, share)
    one, several = least[couple] >= MOSTLY_ONE, least[couple] <= MOSTLY_OTHERS
    if one.all() or several.all() or not (one | several).all():
        return [own]
    others = size[several[place]]
    larger = others > (1 + EQUAL) * connections.typical_bytes[own[one]].max()
    buckets = others[larger].sum() >= SMALL * others.sum() and are_messages(others)
    return [own[one], own[several]] if buckets else [own]


def _split(
    numbers: Ints, values: Ints | Floats, step: float, per_sample: float = 0.0
) -> list[Ints]:
    """Sort by value and part where the next value is more than ``step`` away in logarithm.

    Values that are estimated from packets, each of which stands for the bytes ``per_sample``, may
    be farther apart.
    """
    if numbers.size == 0:
        return []
    logs = np.log(np.maximum(values[numbers], 1).astype(np.float64))
    order = np.argsort(logs, kind="stable")
    far = allowed(step, values[numbers][order][:-1], per_sample)
    cuts = np.flatnonzero(np.diff(logs[order]) > far) + 1
    return [np.sort(part) for part in np.split(numbers[order], cuts)]


def alike(connections: Connections, own: Ints) -> list[Ints]:
    """Part connections by volume and typical record."""
    return [
        part
        for by_volume in _split(own, connections.total_bytes, VOLUME_STEP, connections.sample_bytes)
        for part in _split(
            by_volume, connections.typical_bytes, RECORD_STEP, connections.sample_bytes
        )
    ]


def traffic_of(flows: FlowTable, connections: Connections, own: Ints) -> Traffic:
    """The data-carrying records of some connections, on one line."""
    rows = np.concatenate([connections.by.rows(c) for c in own.tolist()])
    rows = np.sort(rows[~connections.small[rows]])
    src, dst = flows.src[rows].astype(np.int64), flows.dst[rows].astype(np.int64)
    pair = np.minimum(src, dst) * len(flows.addresses) + np.maximum(src, dst)
    couple = np.unique(pair, return_inverse=True)[1].astype(np.int32)
    return Traffic(
        rows.astype(np.int32),
        flows.start_ns[rows],
        flows.end_ns[rows],
        connections.size[rows],
        couple,
        src < dst,
    )

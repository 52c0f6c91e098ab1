"""Lanes: what one endpoint sends to another, as a curve of bytes over time.

Records are read here, once. A lane has the training records of one directed pair in order of
start. Later stages ask for its silences, its bytes between two of them, and first and last times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.front.observe.connections import Connections, sizes_of
from llmprism.methods.prism.front.observe.exporter import Exporter, describe_exporter
from llmprism.methods.prism.front.parameters import CONTROL_RECORD, CONTROL_SHARE, DOUBLED_NS
from llmprism.numerics.arrays import Bools, Floats, Ints, order_in_groups


@dataclass(frozen=True)
class Lane:
    """The training records of one directed pair, in order of start; arrays of shape (records,).

    Attributes
    ----------
    src, dst : endpoint codes.
    start, end : first and last packet, after the first record of all [ns].
    size : [bytes].
    floor : shortest silence that means anything [ns].
    """

    src: int
    dst: int
    start: Floats
    end: Floats
    size: Floats
    floor: float

    @cached_property
    def sent(self) -> Floats:
        """Bytes before each record, and after all of them, shape (records + 1,)."""
        return np.concatenate(([0.0], np.cumsum(self.size)))

    @cached_property
    def reached(self) -> Floats:
        """Latest end so far [ns], shape (records,)."""
        reached: Floats = np.maximum.accumulate(self.end)
        return reached

    @cached_property
    def gaps(self) -> Floats:
        """Silence before each record but the first [ns]; negative if they overlap."""
        return self.start[1:] - self.reached[:-1]

    @cached_property
    def silent(self) -> Ints:
        """Records that follow a silence that means something."""
        return np.flatnonzero(self.gaps > self.floor) + 1

    @property
    def bytes(self) -> float:
        """Total [bytes]."""
        return float(self.sent[-1])

    @cached_property
    def typical(self) -> float:
        """Byte-weighted mean record [bytes]."""
        return float((self.size**2).sum() / max(self.bytes, 1.0))


@dataclass(frozen=True)
class Observation:
    """All that was read of the records: the exporter, connections, and lanes."""

    exporter: Exporter
    connections: Connections
    lanes: list[Lane]
    origin_ns: int


def observe(flows: FlowTable, connections: Connections) -> Observation:
    """Read the records of training connections into lanes."""
    origin = int(flows.start_ns[0]) if len(flows) else 0
    rows = np.flatnonzero(connections.trains[connections.of_row])
    by = rows[order_in_groups(connections.of_row[rows], flows.start_ns[rows])]
    sizes = sizes_of(flows)
    of_record: Ints = connections.of_row[by].astype(np.int64)
    columns = (of_record, flows.start_ns[by], flows.end_ns[by], sizes[by])
    exporter = describe_exporter(*columns)
    if exporter.doubled:
        by = by[~_repeats(*columns)]
    pair = connections.pair[connections.of_row[by]]
    order = np.lexsort((flows.start_ns[by], pair))
    by, pair = by[order], pair[order]
    opens = np.flatnonzero(np.concatenate(([True], pair[1:] != pair[:-1]))) if by.size else by
    start = (flows.start_ns[by] - origin).astype(np.float64)
    end = (flows.end_ns[by] - origin).astype(np.float64)
    size = sizes[by].astype(np.float64)
    lanes = []
    for first, last in zip(opens, [*opens[1:], by.size][: opens.size], strict=True):
        part = slice(first, last)
        keep = _significant(size[part])
        ends = int(flows.src[by[first]]), int(flows.dst[by[first]])
        curve = start[part][keep], end[part][keep], size[part][keep]
        lanes.append(Lane(*ends, *curve, exporter.floor_ns))
    return Observation(exporter, connections, lanes, origin)


def _significant(size: Floats) -> Bools:
    """Records without those much smaller than usual that carry hardly anything together."""
    total = float(size.sum())
    small: Bools = size < CONTROL_RECORD * (size**2).sum() / max(total, 1.0)
    if size[small].sum() < CONTROL_SHARE * total:
        return ~small
    return np.ones(size.size, bool)


def _repeats(connection: Ints, start: Ints, end: Ints, size: Ints) -> Bools:
    """Records of a second exporter on the path of a transfer that was seen already."""
    repeats = np.zeros(size.size, bool)
    for back in (1, 2):
        near = np.maximum(DOUBLED_NS, (end - start)[back:] / 2)
        alike = (connection[back:] == connection[:-back]) & (size[back:] == size[:-back])
        alike &= np.abs(start[back:] - start[:-back]) <= near
        alike &= np.abs(end[back:] - end[:-back]) <= near
        repeats[back:] |= alike & ~repeats[:-back]
    return repeats

"""When connections have a record, in every step: how long in all, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.graph.bursts import SHORT
from llmprism.numerics.arrays import Codes, Floats, Ints, order_in_groups


@dataclass(frozen=True)
class Traffic:
    """Records of the connections of one job in each step; NaN where there is none.

    Attributes
    ----------
    place : row of each connection of the recording in the others, -1 for those of other jobs.
    busy_ns : time with a record, short silences bridged, shape (connections, steps).
    last_ns : last end after the origin of the job, of the same shape.
    size_bytes : bytes, of the same shape.
    """

    place: Ints
    busy_ns: Floats
    last_ns: Floats
    size_bytes: Floats

    def of(self, connections: Ints) -> tuple[Floats, Floats]:
        """Busy times and last ends of some connections, by their numbers in the recording."""
        rows = self.place[connections]
        return self.busy_ns[rows], self.last_ns[rows]

    def bytes_of(self, connections: Ints) -> Floats:
        """Bytes of some connections, by their numbers in the recording."""
        return self.size_bytes[self.place[connections]]


def place_of(context: Context, job: JobView) -> Ints:
    """Row of each connection of the recording among those of ``job``; -1 for all others."""
    place = np.full(len(context.connections), -1)
    own = np.unique(np.concatenate([part.connections for part in job.phases.classes]))
    place[own] = np.arange(own.size)
    return place


def in_cells(context: Context, job: JobView, place: Ints) -> Iterator[tuple[Codes, Ints, Ints]]:
    """Records in known steps, by classes: their rows, bytes, and cells (row * steps + step)."""
    for part in job.phases.classes:
        known, cell = part.cells(context.connections, job.count)
        row = part.traffic.row[known]
        at = place[context.connections.of_row[row]] * job.count + cell % job.count
        yield row, part.traffic.size[known], at


def traffic_of(context: Context, job: JobView) -> Traffic:
    """Measure the connections of ``job``."""
    place = place_of(context, job)
    busy, size = np.zeros((2, (int(place.max()) + 1) * job.count))
    last = np.full(busy.size, -np.inf)
    for row, moved, at in in_cells(context, job, place):
        end_ns = (context.flows.end_ns[row] - job.ranks.origin_ns).astype(np.float64)
        np.add.at(busy, at, _lasting(context, job, row, at))
        np.maximum.at(last, at, end_ns)
        np.add.at(size, at, moved.astype(np.float64))
    unknown = np.isinf(last)
    busy[unknown] = last[unknown] = size[unknown] = np.nan
    return Traffic(place, *(one.reshape(-1, job.count) for one in (busy, last, size)))


def _lasting(context: Context, job: JobView, row: Codes, cell: Ints) -> Floats:
    """How long each record lasts, or until the next one of its cell if that begins soon [ns]."""
    flows, lasting = context.flows, context.flows.lengths_ns(row).astype(np.float64)
    order = order_in_groups(cell, flows.start_ns[row])
    rest = flows.start_ns[row[order[1:]]] - flows.end_ns[row[order[:-1]]]
    bridged = (np.diff(cell[order]) == 0) & (rest > 0) & (rest <= SHORT * job.period_ns)
    lasting[order[:-1][bridged]] += rest[bridged]
    return lasting

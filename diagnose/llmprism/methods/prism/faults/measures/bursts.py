"""Bursts: records with the short silences between them bridged.

Where an exporter cuts records after a very short silence, a slow transfer falls into many
records, each of which looks fast. So silences of a connection that are shorter than a small
share of the job's step are bridged, whatever the exporter did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.phases.own_steps import in_own_steps
from llmprism.numerics.arrays import (
    Bools,
    Codes,
    Floats,
    Ints,
    latest_in_groups,
    order_in_groups,
    weighted_quantile,
)
from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import FLOATS, INTS, compile_early
from llmprism.numerics.missing import nanquantile

SHORT = 0.005  # of a step: the messages of 64 micro-batches are still distinguished
ANSWERED = 0.01  # of a step: rest before an acknowledgement; a pass takes longer
STALL = 0.05  # of a step: a transfer that stalls for longer is not taken for one
PIECE = 0.25  # of a usual burst: less is a piece of one
WHOLE = 1.1  # times a usual burst: pieces hold no more together
MORE = 3.0  # times the bursts of a healthy step: some of them are pieces


@dataclass(frozen=True)
class Bursts:
    """Bursts of a class of connections, by connection, then time; equal length arrays.

    Attributes
    ----------
    place : index of the connection in its class.
    row : row of the first record.
    step : training step.
    start_ns, end_ns, size : [ns], [bytes].
    """

    place: Ints
    row: Codes
    step: Ints
    start_ns: Ints
    end_ns: Ints
    size: Ints


def bursts_of(context: Context, job: JobView, part: KindOf) -> Bursts:
    """Records of one class, those of a connection and step that are close together as one."""
    flows = context.flows
    known, cell = part.cells(context.connections, job.count)
    order = order_in_groups(cell, part.one.traffic.start_ns[known])
    known, cell = known[order], cell[order]
    row, size = part.one.traffic.row[known], part.one.traffic.size[known]
    place, step = cell // job.count, cell % job.count
    start, end = flows.start_ns[row], flows.end_ns[row]
    if not row.size:
        return Bursts(place, row, step, start, end, size)
    opens = np.ones(row.size, np.bool_)
    opens[1:] = start[1:] - latest_in_groups(cell, end)[:-1] > SHORT * job.period_ns
    opens[1:] |= np.diff(cell) != 0
    at = np.flatnonzero(opens)
    found = Bursts(
        place[at], row[at], step[at], start[at], np.maximum.reduceat(end, at),
        np.add.reduceat(size, at),
    )  # fmt: skip
    return _in_own_steps(job, found) if part.kind == "pp" else found


def _in_own_steps(job: JobView, bursts: Bursts) -> Bursts:
    """``bursts``, of which those that count to the step before or after are in their own."""
    firsts = job.phases.first_of_epoch
    own = (bursts.place, bursts.step, bursts.size)
    return replace(bursts, step=in_own_steps(*own, job.count, firsts, counted=True))


def with_answers(context: Context, job: JobView, part: KindOf, bursts: Bursts) -> Bursts:
    """``bursts``, each until the last of the small records that follow it without a silence.

    A connection that moves data both ways acknowledges on its own what the other way moves. Where
    records bridge the silences between, these acknowledgements are a part of them, and their time
    shows how slowly the other way moves. Where an exporter cuts records there, they are alone.
    """
    connections, flows, own = context.connections, context.flows, part.one.connections
    place = np.full(connections.src.size, -1)
    place[own] = np.arange(own.size)
    rows = np.flatnonzero(connections.small)
    rows = rows[place[connections.of_row[rows]] >= 0]
    count = bursts.place.size
    if not rows.size or not count:
        return bursts
    lane = np.concatenate((bursts.place, place[connections.of_row[rows]]))
    start = np.concatenate((bursts.start_ns, flows.start_ns[rows]))
    end = np.concatenate((bursts.end_ns, flows.end_ns[rows]))
    order = order_in_groups(lane, start)
    lane, start, end = lane[order], start[order], end[order]
    opens = order < count
    opens[1:] |= start[1:] - latest_in_groups(lane, end)[:-1] > ANSWERED * job.period_ns
    opens[1:] |= np.diff(lane) != 0
    opens[0] = True
    at = np.flatnonzero(opens)
    latest = np.maximum.reduceat(end, at)
    until = bursts.end_ns.copy()
    until[order[at][order[at] < count]] = latest[order[at] < count]
    return replace(bursts, end_ns=until)


def whole_bursts(job: JobView, bursts: Bursts) -> Bursts:
    """``bursts`` with the pieces of one transfer joined: together they are as large as a usual one.

    A slow part of the network leaves silences between the packets of a transfer. Where an exporter
    cuts records there, each piece looks as fast as in healthy steps, and there are more of them.
    """
    if not bursts.place.size:
        return bursts
    place, median = weighted_quantile(bursts.place, bursts.size, bursts.size, 0.5)
    usual = np.zeros(int(bursts.place.max()) + 1)  # the burst in which the median byte moves
    usual[place] = median
    cell = bursts.place * job.count + bursts.step
    stall_ns = np.where(_cut_up(job, bursts), np.int64(STALL * job.period_ns), -1)
    at = np.flatnonzero(
        _opens(cell, bursts.start_ns, bursts.end_ns, bursts.size, usual[bursts.place], stall_ns)
    )
    return Bursts(
        bursts.place[at], bursts.row[at], bursts.step[at], bursts.start_ns[at],
        np.maximum.reduceat(bursts.end_ns, at), np.add.reduceat(bursts.size, at),
    )  # fmt: skip


def _cut_up(job: JobView, bursts: Bursts) -> Bools:
    """Whether each burst is in a step in which its connection has more of them than usual."""
    cell = bursts.place * job.count + bursts.step
    counts = np.bincount(cell, minlength=(int(bursts.place.max()) + 1) * job.count)
    by_step = counts.reshape(-1, job.count)
    usual = nanquantile(np.where(by_step > 0, by_step, np.nan), 0.25)
    more: Bools = (by_step > MORE * usual[:, None]).ravel()[cell]
    return more


@compiled
def _opens(
    cell: Ints, start_ns: Ints, end_ns: Ints, size: Ints, usual: Floats, stall_ns: Ints
) -> Bools:
    """Whether each burst begins a transfer: pieces are joined until they are as large as one."""
    opens = np.ones(cell.size, np.bool_)
    held, last = float(size[0]), end_ns[0]
    for i in range(1, cell.size):
        together = held + size[i]
        piece = min(held, size[i]) < PIECE * usual[i]
        near = cell[i] == cell[i - 1] and start_ns[i] - last <= stall_ns[i]
        if near and piece and together <= WHOLE * usual[i]:
            opens[i] = False
            held, last = together, max(last, end_ns[i])
        else:
            held, last = float(size[i]), end_ns[i]
    return opens


compile_early(_opens, lambda: (INTS, INTS, INTS, INTS, FLOATS, INTS))

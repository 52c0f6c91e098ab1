"""Own work: the time that a unit spends before what it sends, by the order of its events.

A *unit* is a NIC of a job; it stands for the GPUs behind it. A gap between two events of a unit is
its own work if a send ends it, and waiting if an arrival does. So the own work of a unit in a step
is the sum, over all it sends, of the time since the latest arrival, or the end of its own send,
before it. Nothing is matched by number: a record that is lost joins two gaps, and shifts no other.

A collective is joined, not sent: a hop begins when both of its ends have joined. So a unit has
joined when the first of its lanes goes beyond all that is sent or under way, as a share of the
bytes of a step. Later lanes wait for others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.parameters import EQUAL
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

TRAINING = ("dp", "pp", "ep", "cp", "tp")


@dataclass(frozen=True)
class Transfers:
    """Records of a job in its steps, in order of their starts.

    Attributes
    ----------
    start_ns, end_ns : since the origin of the job [ns]; ``size`` : bytes.
    src, dst : units at both ends, -1 if it is none of the job's.
    step : of each record.
    kind : number of the kind of its traffic.
    is_message : whether it is a message of a pipeline, and no part of a collective.
    """

    start_ns: Floats
    end_ns: Floats
    size: Floats
    src: Ints
    dst: Ints
    step: Ints
    kind: Ints
    is_message: Bools


def transfers_of(context: Context, job: JobView) -> Transfers:
    """The records of all training traffic of ``job`` whose step is known."""
    place = np.full(len(context.flows.addresses), -1)
    place[job.phases.endpoints] = np.arange(job.phases.endpoints.size)
    connections = context.connections
    columns: list[tuple[Ints | Codes, ...]] = [(np.empty(0, np.int64),) * 7]
    for part in job.phases.classes:
        if part.kind in TRAINING:
            known, traffic = part.step >= 0, part.one.traffic
            of = connections.of_row[traffic.row[known]]
            ends = place[connections.src[of]], place[connections.dst[of]]
            kind = np.full(of.size, TRAINING.index(part.kind))
            times = traffic.start_ns[known], traffic.end_ns[known]
            columns.append((*times, traffic.size[known], *ends, part.step[known], kind))
    every = [np.concatenate(one).astype(np.int64) for one in zip(*columns, strict=True)]
    start, end, size, src, dst, step, kind = every
    order = np.argsort(start, kind="stable")
    origin = job.ranks.origin_ns
    return Transfers(
        (start[order] - origin).astype(np.float64), (end[order] - origin).astype(np.float64),
        size[order].astype(np.float64), src[order], dst[order], step[order].astype(np.int64),
        kind[order], kind[order] == TRAINING.index("pp"),
    )  # fmt: skip


def own_work_ns(context: Context, job: JobView) -> Floats:
    """Own work of each unit in each step [ns], shape (units, steps); NaN where it has no events."""
    sent = transfers_of(context, job)
    progress = _progress(sent)
    collective = ~sent.is_message
    ends = [
        (sent.src, sent.start_ns, np.ones(sent.step.size, np.bool_)),  # begins
        (sent.dst[collective], sent.start_ns[collective], np.ones(int(collective.sum()), np.bool_)),
        (sent.src, sent.end_ns, np.zeros(sent.step.size, np.bool_)),
        (sent.dst, sent.end_ns, np.zeros(sent.step.size, np.bool_)),
    ]
    unit, at_ns, begins = (np.concatenate(one) for one in zip(*ends, strict=True))
    rows = np.arange(sent.step.size)
    row = np.concatenate((rows, rows[collective], rows, rows))
    joins = begins & (sent.is_message[row] | _goes_ahead(sent, progress, unit, row, begins))
    known = np.flatnonzero(unit >= 0)
    order = known[np.lexsort((begins[known], at_ns[known], unit[known]))]
    units = job.phases.endpoints.size
    own = np.zeros((units, job.count))
    own[np.setdiff1d(np.arange(units), unit[known])] = np.nan
    if order.size:
        gap = np.diff(at_ns[order], prepend=at_ns[order[0]])
        gap[np.diff(unit[order], prepend=-1) != 0] = 0.0
        counts = joins[order]
        np.add.at(own, (unit[order][counts], sent.step[row[order]][counts]), gap[counts])
    return own


def _progress(sent: Transfers) -> Ints:
    """What the lane of each record had sent before it, and with it, shape (2, records).

    In parts of the bytes of a usual step.
    """
    if not sent.step.size:
        return np.empty((2, 0), np.int64)
    lane = np.unique(np.stack((sent.src, sent.dst, sent.kind)), axis=1, return_inverse=True)[
        1
    ].ravel()
    steps = int(sent.step.max()) + 1
    cell = lane * steps + sent.step
    order = np.argsort(cell, kind="stable")
    total = np.bincount(cell, sent.size, (int(lane.max()) + 1) * steps)
    until = np.cumsum(sent.size[order])
    before = np.empty(order.size)
    before[order] = until - sent.size[order] - (np.cumsum(total) - total)[cell[order]]
    table = np.where(total > 0, total, np.nan).reshape(-1, steps)
    usual = np.nanmedian(table, axis=1)
    both = np.stack((before, before + sent.size)) / usual[lane]
    progress: Ints = np.floor(both / EQUAL + 0.5).astype(np.int64)
    return progress


def _goes_ahead(
    sent: Transfers, progress: Ints, unit: Ints, row: Codes | Ints, begins: Bools
) -> Bools:
    """Whether a lane of a unit goes beyond all that its lanes of the same kind sent in the step."""
    ahead = np.zeros(unit.size, np.bool_)
    chosen = np.flatnonzero(begins & ~sent.is_message[row] & (unit >= 0))
    if not chosen.size:
        return ahead
    of = row[chosen]
    keys = np.stack((unit[chosen], sent.kind[of], sent.step[of]))
    group = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    order = np.lexsort((sent.start_ns[of], group))
    apart = int(progress.max()) + 2
    before, after = progress[:, of[order]] + group[order] * apart
    most = np.maximum.accumulate(np.concatenate(([0], after[:-1])))
    ahead[chosen[order]] = before >= np.maximum(most, group[order] * apart)
    return ahead

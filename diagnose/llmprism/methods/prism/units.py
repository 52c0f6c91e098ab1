"""Own work: the time that a unit spends before what it sends, by the order of its events.

A *unit* is a NIC of a job; it stands for the GPUs behind it. A gap between two events of a unit is
its own work if a send ends it, and waiting if an arrival does. So the own work of a unit in a step
is the sum, over all it sends, of the time since the latest arrival, or the end of its own send,
before it. Nothing is matched by number: a record that is lost joins two gaps, and shifts no other.

A collective is joined, not sent: a hop begins when both of its ends have joined. So a unit has
joined when the first of its lanes goes beyond all that is sent or under way, as a share of the
bytes of a step. Later lanes wait for others. A *lane* is what a unit sends to another in traffic of
one kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.parameters import EQUAL
from llmprism.numerics.arrays import CODES, INTS, Codes, Floats, Ints
from llmprism.numerics.missing import nanmedian
from llmprism.numerics.own_work import add_own_work

TRAINING = ("dp", "pp", "ep", "cp", "tp")
MESSAGES = TRAINING.index("pp")  # traffic of all other kinds is parts of collectives


@dataclass(frozen=True)
class Lanes:
    """Units at both ends of each lane, -1 for those of other jobs, and the number of its kind."""

    source: Codes
    target: Codes
    kind: Codes


@dataclass(frozen=True)
class Transfers:
    """Records of a job in its steps, in no order.

    Attributes
    ----------
    start_ns, end_ns, size : of each record, [ns] and bytes.
    step, lane : of each record.
    lanes : what is sent on them.
    """

    start_ns: Ints
    end_ns: Ints
    size: Ints
    step: Codes
    lane: Codes
    lanes: Lanes


def transfers_of(context: Context, job: JobView) -> Transfers:
    """The records of all training traffic of ``job`` whose step is known."""
    connections = context.connections
    place = np.full(len(context.flows.addresses), -1)
    place[job.phases.endpoints] = np.arange(job.phases.endpoints.size)
    ends = np.stack((place[connections.src], place[connections.dst]))
    links, link = np.unique(ends, axis=1, return_inverse=True)
    first_lane = (link.ravel() * len(TRAINING)).astype(np.int32)
    columns: list[tuple[Ints | Codes, ...]] = [(INTS, INTS, INTS, CODES, CODES)]
    for part in job.phases.classes:
        if part.kind in TRAINING:
            known, traffic = np.flatnonzero(part.step >= 0), part.traffic
            lane = first_lane[connections.of_row[traffic.row[known]]] + TRAINING.index(part.kind)
            times = traffic.start_ns[known], traffic.end_ns[known]
            columns.append((*times, traffic.size[known], part.step[known], lane))
    start, end, size, step, lane = (np.concatenate(one) for one in zip(*columns, strict=True))
    source, target = np.repeat(links, len(TRAINING), axis=1).astype(np.int32)
    kind = np.tile(np.arange(len(TRAINING), dtype=np.int32), links.shape[1])
    codes = step.astype(np.int32), lane.astype(np.int32)
    return Transfers(start, end, size, *codes, Lanes(source, target, kind))


def own_work_ns(context: Context, job: JobView) -> Floats:
    """Own work of each unit in each step [ns], shape (units, steps); NaN where it has no events."""
    sent, units = transfers_of(context, job), job.phases.endpoints.size
    lanes = sent.lanes
    by_start, by_end = (np.argsort(one, kind="stable") for one in (sent.start_ns, sent.end_ns))
    own = np.zeros((units, job.count))
    has_events = add_own_work(
        (by_start.astype(np.int32), by_end.astype(np.int32)),
        (sent.start_ns, sent.end_ns, sent.size), (sent.step, sent.lane),
        (lanes.source, lanes.target, lanes.kind, lanes.kind == MESSAGES),
        (_usual_bytes(sent, job.count), EQUAL), own,
    )  # fmt: skip
    own[~has_events] = np.nan
    return own


def _usual_bytes(sent: Transfers, steps: int) -> Floats:
    """Bytes of each lane in a usual step in which it has any; NaN where it has none."""
    cell = sent.lane.astype(np.int64) * steps + sent.step
    total = np.bincount(cell, sent.size, sent.lanes.kind.size * steps).reshape(-1, steps)
    return nanmedian(np.where(total > 0, total, np.nan), axis=1)

"""Own work: the time that a unit spends before what it sends, by the order of its events.

A *unit* is a NIC of a job; it stands for the GPUs behind it. A gap between two events of a unit is
its own work if a send ends it, and waiting if an arrival does. So the own work of a unit in a step
is the sum, over all it sends, of the time since the latest arrival, or the end of its own send,
before it. Nothing is matched by number: a record that is lost joins two gaps, and shifts no other.

A collective is joined, not sent: a hop begins when both of its ends have joined. So a unit has
joined when the first of its lanes goes beyond all that is sent or under way, as a share of the
bytes of a step. Later lanes wait for others. A *lane* is what a unit sends to
another in traffic of one kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.parameters import EQUAL
from llmprism.numerics.arrays import Codes, Floats, Ints
from llmprism.numerics.missing import nanmedian
from prism_common.compiled import compiled, compiled_part
from prism_common.early import CODES, FLOATS, INTS, compile_early

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
            known, traffic = np.flatnonzero(part.step >= 0), part.one.traffic
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
    has_events = _add_own_work(
        (by_start.astype(np.int32), by_end.astype(np.int32)),
        (sent.start_ns, sent.end_ns, sent.size), (sent.step, sent.lane),
        (lanes.source, lanes.target, lanes.kind), _usual_bytes(sent, job.count), own,
    )  # fmt: skip
    own[~has_events] = np.nan
    return own


def _usual_bytes(sent: Transfers, steps: int) -> Floats:
    """Bytes of each lane in a usual step in which it has any; NaN where it has none."""
    cell = sent.lane.astype(np.int64) * steps + sent.step
    total = np.bincount(cell, sent.size, sent.lanes.kind.size * steps).reshape(-1, steps)
    return nanmedian(np.where(total > 0, total, np.nan), axis=1)


@compiled
def _add_own_work(
    order: tuple[Codes, Codes], records: tuple[Ints, Ints, Ints], of: tuple[Codes, Codes],
    lanes: tuple[Codes, Codes, Codes], usual: Floats, own: Floats,
) -> NDArray[np.bool_]:  # fmt: skip
    """Add the own work of each unit and step to ``own``; returns which units have events.

    Of several events at one time, ends come first, then begins of what units send, then those of
    collectives that they receive.
    """
    by_start, by_end = order
    start_ns, end_ns, size = records
    step, lane = of
    source, target, kind = lanes
    units, steps = own.shape
    latest_ns, known = np.zeros(units, np.int64), np.zeros(units, np.bool_)
    sent = np.zeros(usual.size * steps, np.int64)  # of each lane in each step, by now
    before = np.zeros(by_start.size, np.int64)  # the same when each record begins
    most = np.zeros(units * len(TRAINING) * steps, np.int64)
    state = latest_ns, known, most
    ended, at = 0, 0
    while at < by_start.size:
        now_ns = start_ns[by_start[at]]
        while ended < by_end.size and end_ns[by_end[ended]] <= now_ns:
            _note_end(by_end[ended], end_ns, lane, source, target, latest_ns, known)
            ended += 1
        until = at
        while until < by_start.size and start_ns[by_start[until]] == now_ns:
            row = by_start[until]
            cell = lane[row] * steps + step[row]
            before[row] = sent[cell]
            sent[cell] += size[row]
            until += 1
        for receives in range(2):
            for place in range(at, until):
                row = by_start[place]
                unit = target[lane[row]] if receives else source[lane[row]]
                if unit >= 0 and not (receives and kind[lane[row]] == MESSAGES):
                    _begin(row, unit, now_ns, before, size, step, lane, kind, usual, state, own)
        at = until
    for place in range(ended, by_end.size):
        _note_end(by_end[place], end_ns, lane, source, target, latest_ns, known)
    return known


@compiled_part
def _note_end(
    row: int, end_ns: Ints, lane: Codes, source: Codes, target: Codes, latest_ns: Ints,
    known: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Note the end of a record as the latest event of both of its units."""
    for unit in (source[lane[row]], target[lane[row]]):
        if unit >= 0:
            latest_ns[unit] = end_ns[row]
            known[unit] = True


@compiled_part
def _begin(
    row: int, unit: int, now_ns: int, before: Ints, size: Ints, step: Codes, lane: Codes,
    kind: Codes, usual: Floats, state: tuple[Ints, NDArray[np.bool_], Ints], own: Floats,
) -> None:  # fmt: skip
    """Add the time since the latest event of a ``unit``, if it joins with the record ``row``.

    It joins a collective if its lane goes beyond all that its lanes of the same kind sent in the
    step, in parts of the bytes of a usual step.
    """
    latest_ns, known, most = state
    of, number = lane[row], kind[lane[row]]
    joins = number == MESSAGES
    if not joins and np.isfinite(usual[of]):
        cell = (unit * len(TRAINING) + number) * own.shape[1] + step[row]
        joins = np.floor(before[row] / usual[of] / EQUAL + 0.5) >= most[cell]
        after = np.int64(np.floor((before[row] + size[row]) / usual[of] / EQUAL + 0.5))
        most[cell] = max(most[cell], after)
    if joins and known[unit]:
        own[unit, step[row]] += now_ns - latest_ns[unit]
    latest_ns[unit] = now_ns
    known[unit] = True


compile_early(
    _add_own_work,
    lambda: (
        (CODES, CODES), (INTS, INTS, INTS), (CODES, CODES), (CODES, CODES, CODES), FLOATS,
        FLOATS[:, None],
    ),
)  # fmt: skip

"""Where a job stopped: what it moved after its last finished step, and before a long silence.

A job stops where nothing of it is sent for many steps, or for good. What it moved since its last
finished step is the tail: the part of a step that shows how far each rank came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.parameters import MOSTLY, NEARLY, SMALL
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import group_volumes
from llmprism.methods.prism.records.connections import LIGHTER, Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.missing import finite_median

HEADERS, LACKS = 0.002, 0.05  # of the bytes of a group: what counts as none, and as a good part
FINISHED = 0.95  # of the usual bytes, where no exchange of gradients shows that a step has ended
STALLED = 20.0  # steps: no transfer, evaluation or save of a job that goes on takes as long
LEAST = 1e-3  # of a usual record: less is no chunk of a collective, but control traffic
LATER = 2.0  # times its longest silence in finished steps: what a rank that goes on never rests


@dataclass(frozen=True)
class Tail:
    """What a job moved after its last finished step, before it went on or the records end.

    Attributes
    ----------
    step : number of the unfinished step.
    begin_ns, end_ns : of the finished step's end, and of the last record.
    next_ns : when the job went on; None if it never did.
    until_ns : the same, or the end of the records if it never did.
    again : whether it began again then, with other connections or after a break of its rhythm.
    rows : of the flow table, by kind of traffic.
    waiting : rows of transfers that began before the traffic ended, and ended when it went on.
    """

    step: int
    begin_ns: int
    end_ns: int
    next_ns: int | None
    until_ns: int
    again: bool
    rows: dict[str, Ints]
    waiting: Ints


@dataclass(frozen=True)
class Stuck:
    """The endpoint that stopped first: since when, what shows it, and others that may have.

    ``alone`` is whether its pipeline stayed behind all others, which a cut of the records does not
    explain.
    """

    endpoint: int
    since_ns: int
    shown_by: str
    others: tuple[int, ...] = ()
    cause: str = "hang"
    alone: bool = False


def tails_of(context: Context, job: JobView) -> Iterator[Tail]:
    """The unfinished step before each silence of ``job``, where there is one."""
    volume, ends = _finished(context, job)
    exchanged = any(part.kind == "dp" for part in job.phases.classes)
    least = (MOSTLY if exchanged else FINISHED) * finite_median(volume[volume > 0])
    whole = (volume > 0) & (volume >= least)
    whole &= ~_stalled(job)
    since_ns = int(context.flows.start_ns.min()) - 1
    for next_ns, again in _attempts(context, job):
        done = np.flatnonzero(whole & (next_ns is None or ends <= next_ns))
        last, end_ns = (int(done[-1]), int(ends[done[-1]])) if done.size else (-1, 0)
        if next_ns is not None or end_ns > since_ns:
            yield _tail(context, job, last, (since_ns, max(since_ns, end_ns)), next_ns, again)
        since_ns = (next_ns or 0) - 1


def _attempts(context: Context, job: JobView) -> list[tuple[int | None, bool]]:
    """When ``job`` went on after each of its attempts, and whether it began again; None: never."""
    flows, rows = context.flows, np.concatenate([*_rows_of(context, job).values()])
    firsts = job.phases.first_of_epoch.tolist()
    begins = [_begins(context, job, first) for first in firsts if first < job.count]
    again = {*begins[1:]}
    rows = np.sort(rows[~_long(context, job, rows)])  # in order of start
    latest = flows.end_ns[rows]
    np.maximum.accumulate(latest, out=latest)
    silence_ns = flows.start_ns[rows[1:]]
    silence_ns -= latest[:-1]
    after = rows[1:][silence_ns > STALLED * job.period_ns]
    free = _of_attempts(context, job)
    begins = begins if (context.connections.last_ns[free] < begins[0]).any() else begins[1:]
    every = sorted({*begins, *flows.start_ns[after].tolist()})
    return [*((at, at in again) for at in every), (None, False)]


def _tail(
    context: Context, job: JobView, last: int, extent: tuple[int, int], next_ns: int | None,
    again: bool,
) -> Tail:  # fmt: skip
    """What was moved after step ``last``: ``extent`` is the begin of the attempt, and its end."""
    begin_ns = extent[1]
    ends_ns = _own_ends(context, job, last, extent, next_ns)
    every = _between(context, job, ends_ns, next_ns)
    waiting = np.concatenate([one[_long(context, job, one)] for one in every.values()])
    rows = {kind: one[~_long(context, job, one)] for kind, one in every.items()}
    latest = [int(context.flows.end_ns[own].max()) for own in rows.values() if own.size]
    end_ns = max([begin_ns, *latest])
    until_ns = context.flows.recorded_ns[1] if next_ns is None else next_ns
    return Tail(last + 1, begin_ns, end_ns, next_ns, until_ns, again, rows, waiting)


def _finished(context: Context, job: JobView) -> tuple[Floats, Ints]:
    """Bytes of data-parallel traffic in each step, and its last end [ns]; of all if there is none.

    Replicas that share their servers exchange gradients where nothing is seen.
    """
    volume = np.zeros(job.count)
    ends = np.zeros(job.count, np.int64)
    exchanges = [part for part in job.phases.classes if part.kind == "dp"]
    for part in exchanges or job.phases.classes:
        known = part.step >= 0
        volume += np.bincount(part.step[known], part.one.traffic.size[known], job.count)
        rows = part.one.traffic.row[known]
        np.maximum.at(ends, part.step[known], context.flows.end_ns[rows])
    return volume, ends


def unfinished_groups(context: Context, job: JobView, tail: Tail) -> set[int]:
    """Endpoints of groups that never finished their exchange before ``tail``.

    Only where groups move as much in every step: bytes of samples and of lossy records differ.
    """
    group, last = job.phases.dp_group, tail.step - 1
    group_of = np.zeros(len(context.flows.addresses), np.int64)
    group_of[job.phases.endpoints] = np.maximum(group, 0)
    volumes = group_volumes(context.connections, job.phases.classes, group_of, job.count)
    usual = np.median(volumes, axis=1, keepdims=True)
    less = 1 - volumes / np.maximum(usual, 1.0)
    steady = (np.abs(less) <= HEADERS).mean(axis=1) >= NEARLY
    lacking = steady & (usual[:, 0] > 0) & (less[:, min(last, job.count - 1)] > LACKS)
    broken = (group >= 0) & lacking[np.maximum(group, 0)]
    return {*job.phases.endpoints[broken].tolist()}


def quiet_until_ns(since_ns: int, until_ns: int) -> int:
    """Until when a NIC that was silent between two times was surely silent [ns]."""
    return until_ns - round(SMALL * (until_ns - since_ns))


def ends_of(flows: FlowTable, chosen: Bools | Ints) -> Ints:
    """Number of ``chosen`` records that each address sends or receives."""
    count = len(flows.addresses)
    sent, received = (np.bincount(each[chosen], minlength=count) for each in (flows.src, flows.dst))
    return sent + received


def _stalled(job: JobView) -> Bools:
    """Steps in which a transfer waited for so long that the job did not go on.

    What is left of it may be sent when the partner is back, so no bytes lack.
    """
    stalled = np.zeros(job.count, np.bool_)
    for part in job.phases.classes:
        lasted_ns = part.one.traffic.end_ns - part.one.traffic.start_ns
        long = (part.step >= 0) & (lasted_ns > STALLED * job.period_ns)
        stalled[part.step[long]] = True
    return stalled


def _begins(context: Context, job: JobView, step: int) -> int:
    """First record of ``step`` [ns], without what had waited since the attempt before."""
    rows = np.concatenate([p.one.traffic.row[p.step == step] for p in job.phases.classes])
    rows = rows[~_long(context, job, rows)]
    return int(context.flows.start_ns[rows].min()) if rows.size else int(job.start_ns[step])


def _long(context: Context, job: JobView, rows: Ints) -> Bools:
    """Which records last longer than any of a step that goes on."""
    long: Bools = context.flows.lengths_ns(rows) > LATER * job.period_ns
    return long


def _own_ends(
    context: Context, job: JobView, step: int, extent: tuple[int, int], next_ns: int | None
) -> Ints:
    """When each address ended ``step`` [ns]; ranks do not all begin the next one together."""
    end_ns = extent[1]
    ends = np.full(len(context.flows.addresses), end_ns)
    own = job.phases.moments["dp"].end_ns[:, step]
    ends[job.phases.endpoints] = np.where(own == MISSING, end_ns, np.clip(own, *extent))
    later = _between(context, job, ends, next_ns).get("dp", np.empty(0, np.int64))
    later = later[context.flows.start_ns[later] < end_ns]  # counted into another step
    for side in (context.flows.src, context.flows.dst):
        np.maximum.at(ends, side[later], context.flows.end_ns[later])
    return ends


def _between(context: Context, job: JobView, ends_ns: Ints, next_ns: int | None) -> dict[str, Ints]:
    """Rows of each kind that begin after the end of their sender's step, and before a time."""
    found = {}
    for kind, rows in _rows_of(context, job).items():
        start = context.flows.start_ns[rows]
        inside = start > ends_ns[context.flows.src[rows]]  # a coarse clock shows both as one
        if next_ns is not None:
            inside &= start < next_ns
        found[kind] = rows[inside]
    return found


@measured_once
def _rows_of(context: Context, job: JobView) -> dict[str, Ints]:
    """All rows of each kind of traffic, those of attempts that finished no step included.

    Where a record holds all bytes of a step, the first chunks of one that is never finished are as
    short beside it as control traffic. Where records are seen twice, the second ones look like
    these: none of them is added.
    """
    connections, of = context.connections, context.connections.of_row
    free, pair = _of_attempts(context, job), _pair_of(context)
    found: dict[str, list[Ints]] = {}
    for part in job.phases.classes:
        own = part.one.connections
        chosen = np.append(own, free[np.isin(pair[free], pair[own])])
        free = np.setdiff1d(free, chosen)
        least = np.full(len(connections), np.inf)
        usual = _usual_bytes(connections, pair, own)[chosen]
        held = 2 * max(job.pipelines.messages, 1) if part.kind == "pp" else LIGHTER
        least[chosen] = usual * np.where(np.arange(chosen.size) < own.size, LEAST, 1 / held)
        rows = np.concatenate([connections.by.rows(one) for one in chosen.tolist()])
        rows = rows[connections.size[rows] >= least[of[rows]]]
        small = connections.small[rows]
        short = connections.size[rows] * LIGHTER < connections.typical_bytes[of[rows]]
        rows = rows[short | ~small] if short[small].all() else rows[~small]
        chosen_rows = np.zeros(of.size, np.bool_)
        chosen_rows[part.one.traffic.row] = chosen_rows[rows] = True
        found.setdefault(part.kind, []).append(np.flatnonzero(chosen_rows))
    return {kind: np.concatenate(rows) for kind, rows in found.items()}


@measured_once
def _of_attempts(context: Context, job: JobView) -> Ints:
    """Connections of attempts that finished no step: no job was found in them.

    They lead where those of the job do, before, between, or after its attempts.
    """
    connections, pair = context.connections, _pair_of(context)
    free = ~connections.answer
    for other in context.jobs:
        for part in other.phases.classes:
            free[part.one.connections] = False
    own = [part.one.connections for part in job.phases.classes]
    begin = np.sort([connections.first_ns[each].min() for each in own])
    end = np.sort([connections.last_ns[each].max() for each in own])
    free &= np.isin(pair, pair[np.concatenate(own)])
    before = np.searchsorted(end, connections.first_ns)
    attempts: Ints = np.flatnonzero(free & (before == np.searchsorted(begin, connections.last_ns)))
    return attempts


def _pair_of(context: Context) -> Ints:
    """A number for the two ends of each connection."""
    nodes = len(context.flows.addresses)
    every = context.connections.src.astype(np.int64) * nodes + context.connections.dst
    pair: Ints = np.unique(every, return_inverse=True)[1].ravel()
    return pair


def _usual_bytes(connections: Connections, pair: Ints, own: Ints | Codes) -> Floats:
    """The least usual record of the pair of each connection, among its ``own`` ones; else none."""
    usual = np.full(len(connections), np.inf)
    np.minimum.at(usual, pair[own], connections.typical_bytes[own])
    return usual[pair]

"""How far each rank of a job came in a step that was never finished.

What a rank needs before it sends is learned from the finished steps: before its k-th message of
a step it has always received so many messages from each side. In the unfinished step a rank that
has received all of that, and does not send, is the one that stopped; the others lack something.
No order of passes has to be known, so this holds for every schedule.

In a collective the hops between other ranks begin. The rank that stopped has moved least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.messages import (
    Messages,
    message_sizes,
    messages_of,
    pipelines_behind,
)
from llmprism.methods.prism.phases import MISSING
from llmprism.numerics.arrays import Bools, Floats, Ints, grouped, order_in_groups
from llmprism.numerics.missing import finite_median

WHOLE = 0.5  # of the usual bytes: a step that has as many was finished
NEARLY = 0.95  # ... where no exchange of gradients at its end shows that
ENOUGH = 3  # steps without lost records that show what a message needs
LEARNED = 24  # steps that a job's needs are learned from, where it has more
STALLED = 20.0  # steps: no transfer of a job that goes on takes as long
LATER = 2.0  # times its longest silence in finished steps: what a rank that goes on never rests


@dataclass(frozen=True)
class Tail:
    """What a job moved after its last finished step, before it went on or the records end.

    Attributes
    ----------
    step : number of the unfinished step.
    begin_ns, end_ns : of the finished step's end, and of the last record.
    next_ns : when the job went on; None if it never did.
    rows : of the flow table, by kind of traffic.
    waiting : rows of transfers that began before the traffic ended, and ended when it went on.
    """

    step: int
    begin_ns: int
    end_ns: int
    next_ns: int | None
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
    """The unfinished step at the end of each attempt of ``job``, where there is one."""
    volume, ends = _finished(context, job)
    exchanged = any(part.kind == "dp" for part in job.phases.classes)
    least = (WHOLE if exchanged else NEARLY) * finite_median(volume[volume > 0])
    whole = (volume > 0) & (volume >= least)
    whole &= ~_stalled(job)
    firsts = [*job.phases.first_of_epoch.tolist(), job.count]
    for first, after in pairwise(firsts):
        done = first + np.flatnonzero(whole[first:after])
        if not done.size:
            continue
        begin_ns = int(ends[done[-1]])
        next_ns = _begins(context, job, after) if after < job.count else None
        ends_ns = _own_ends(context, job, int(done[-1]), begin_ns, next_ns)
        rows = _between(context, job, ends_ns, next_ns)
        waiting = np.concatenate([one[_long(context, job, one)] for one in rows.values()])
        rows = {kind: one[~_long(context, job, one)] for kind, one in rows.items()}
        last = [int(context.flows.end_ns[own].max()) for own in rows.values() if own.size]
        yield Tail(int(done[-1]) + 1, begin_ns, max([begin_ns, *last]), next_ns, rows, waiting)


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


def _own_ends(context: Context, job: JobView, step: int, end_ns: int, next_ns: int | None) -> Ints:
    """When each address ended ``step`` [ns]; ranks do not all begin the next one together."""
    ends = np.full(len(context.flows.addresses), end_ns)
    own = job.phases.moments["dp"].end_ns[:, step]
    ends[job.phases.endpoints] = np.where(own == MISSING, end_ns, np.minimum(own, end_ns))
    later = _between(context, job, ends, next_ns).get("dp", np.empty(0, np.int64))
    if not later.size or int(context.flows.start_ns[later].min()) < end_ns:
        for side in (context.flows.src, context.flows.dst):  # counted into another step
            np.maximum.at(ends, side[later], context.flows.end_ns[later])
    return ends


def _between(context: Context, job: JobView, ends_ns: Ints, next_ns: int | None) -> dict[str, Ints]:
    """Rows of each kind that begin after the end of their sender's step, and before a time."""
    found: dict[str, list[Ints]] = {}
    for part in job.phases.classes:
        rows = part.one.traffic.row
        start = context.flows.start_ns[rows]
        inside = start >= ends_ns[context.flows.src[rows]]
        if next_ns is not None:
            inside &= start < next_ns
        found.setdefault(part.kind, []).append(rows[inside].astype(np.int64))
    return {kind: np.concatenate(rows) for kind, rows in found.items()}


def stuck_in(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """The endpoint that stopped in ``tail``; None if nothing distinguishes one."""
    return (
        _stuck_on_the_wire(context, tail)
        or _stuck_in_collective(context, job, tail)
        or _stuck_in_pipeline(context, job, tail)
    )


def _stuck_on_the_wire(context: Context, tail: Tail) -> Stuck | None:
    """The endpoint of most transfers that waited all the time: its NIC, or its partner's.

    Of two with equally many, the one that was to receive: its partner's packets were seen.
    """
    flows, rows = context.flows, tail.waiting
    if not rows.size:
        return None
    times = np.zeros(len(flows.addresses))
    np.add.at(times, flows.src[rows], 1.0)
    np.add.at(times, flows.dst[rows], 1.01)
    order = np.argsort(-times, kind="stable")[: int((times > 0).sum())].tolist()
    since_ns = int(flows.start_ns[rows].min())
    return Stuck(order[0], since_ns, "a transfer waited", tuple(order[1:3]), "stopped_nic")


def _stuck_in_collective(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """The endpoint that moved clearly less of a collective than all others of its group."""
    rows = tail.rows.get("dp", np.empty(0, np.int64))
    if not rows.size:
        return None
    moved = np.zeros(len(context.flows.addresses))
    for side in (context.flows.src, context.flows.dst):
        np.add.at(moved, side[rows], context.flows.bytes[rows])
    ends, group = job.phases.endpoints, job.phases.dp_group
    for one in np.unique(group[group >= 0]).tolist():
        own = ends[group == one]
        order = np.argsort(moved[own], kind="stable")
        least, second = moved[own][order[:2]] if own.size > 2 else (0.0, 0.0)
        if second > 0 and least < 0.75 * second:
            return Stuck(int(own[order[0]]), tail.begin_ns, "moved least of a collective")
    return None


def _stuck_in_pipeline(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """The endpoint that had all it needed for its next message for longest, and sent none."""
    rows = tail.rows.get("pp", np.empty(0, np.int64))
    learned = Needs(context, job)
    found: list[tuple[int, int]] = []
    behind = pipelines_behind(context, job, rows)
    number = job.pipelines.number
    chosen = np.isin(number, list(behind)) if behind else number >= 0
    for end in job.phases.endpoints[chosen].tolist():
        ready_ns = learned.ready_ns(end, rows, tail.begin_ns)
        if ready_ns is not None:
            found.append((ready_ns, end))
    found.sort()
    pipelines = number[np.searchsorted(job.phases.endpoints, [e for _, e in found])]
    if not found or np.unique(pipelines).size > max(1, number.max() // 2):
        return None  # most of the replicas are in the same state: the records were cut there
    first_ns, first = found[0]
    others = dict.fromkeys([end for _, end in found[1:]] + learned.next_goal(first, rows))
    others.pop(first, None)
    shown_by = "received its input and sent nothing"
    return Stuck(first, first_ns, shown_by, tuple(others), alone=bool(behind))


class Needs:
    """What each endpoint of a job's pipelines has always received before its k-th message."""

    def __init__(self, context: Context, job: JobView) -> None:
        self._flows = context.flows
        parts = [part for part in job.phases.classes if part.kind == "pp"]
        empty = np.empty(0, np.int64)
        number = learned_from(job.count)
        steps = [number[part.step] for part in parts]
        known = [np.flatnonzero(step >= 0) for step in steps]
        row_of = [part.one.traffic.row[own] for part, own in zip(parts, known, strict=True)]
        step_of = [step[own] for step, own in zip(steps, known, strict=True)]
        rows, step = np.concatenate([empty, *row_of]), np.concatenate([empty, *step_of])
        lines = job.pipelines
        held = max(lines.micro_batches, 1) * max(lines.chunks, 1)
        self._sizes = message_sizes(context.flows, rows, step, held)
        self._all = messages_of(context.flows, rows, step, self._sizes)
        self._count = int(number.max(initial=-1)) + 1
        addresses = len(context.flows.addresses)
        self._by_end = [grouped(side, addresses) for side in (self._all.src, self._all.dst)]

    def ready_ns(self, end: int, tail: Ints, begin_ns: int) -> int | None:
        """When ``end`` had all it needed for the message it never sent; None if it lacked some.

        Also None if it has sent all of a step.
        """
        sent, received = self._events(end, tail)
        needed = self._needed(end, sent.size)
        if needed is None:
            return None
        latest = max(begin_ns, int(sent.max(initial=begin_ns)))
        for side, need in needed.items():
            got = received.get(side, np.empty(0, np.int64))
            if got.size < need:
                return None
            if need:
                latest = max(latest, int(got[need - 1]))
        return latest

    def _needed(self, end: int, sent: int) -> dict[int, int] | None:
        """Messages of each partner that have always come before the next one after ``sent``.

        Of the steps in which ``end`` sends its usual number; None if it has sent as many.
        """
        own, steps = self._with(end), self._count - 1
        step = own.step
        out, into = own.src == end, own.dst == end
        count = np.bincount(step[out], minlength=steps)
        usual = int(np.median(count)) if steps else 0
        if sent >= usual:
            return None
        partners, number = np.unique(own.src[into], return_inverse=True)
        cells = partners.size * steps
        arrived = np.bincount(number * steps + step[into], minlength=cells).reshape(-1, steps)
        whole = _whole(np.flatnonzero(count == usual), arrived)
        start = own.begin_ns[out]
        start = start[order_in_groups(step[out], start)]
        begin = np.full(steps, np.iinfo(np.int64).min)
        begin[whole] = start[(np.cumsum(count) - count)[whole] + sent]
        before = own.end_ns[into] <= begin[step[into]]
        came = np.bincount((number * steps + step[into])[before], minlength=cells)
        least = came.reshape(-1, steps)[:, whole].min(axis=1, initial=np.iinfo(np.int64).max)
        return dict(zip(partners.tolist(), least.tolist(), strict=True))

    def next_goal(self, end: int, tail: Ints) -> list[int]:
        """Where the message that ``end`` never sent goes in other steps; nowhere if that varies."""
        sent, _ = self._events(end, tail)
        own = self._with(end)
        chosen = own.src == end
        begin, step, goal = own.begin_ns[chosen], own.step[chosen], own.dst[chosen]
        order = order_in_groups(step, begin)
        step, goal = step[order], goal[order]
        place = np.arange(step.size) - np.searchsorted(step, step)
        goals = np.unique(goal[place == sent.size])
        return goals.tolist() if goals.size == 1 else []

    def _with(self, end: int) -> Messages:
        """Messages of whole steps that ``end`` sends or receives."""
        own = np.unique(np.concatenate([by.rows(end) for by in self._by_end]))
        own = own[self._all.step[own] < self._count - 1]
        every = self._all
        return Messages(*(side[own] for side in vars(every).values()))

    def _events(self, end: int, rows: Ints) -> tuple[Ints, dict[int, Ints]]:
        """Starts of what ``end`` sends in ``rows``, and ends of what each partner sends to it."""
        flows = self._flows
        own = rows[(flows.src[rows] == end) | (flows.dst[rows] == end)]
        held = messages_of(flows, own, np.zeros(own.size, np.int64), self._sizes)
        into = held.dst == end
        partners = np.unique(held.src[into]).tolist()
        by = {one: np.sort(held.end_ns[into & (held.src == one)]) for one in partners}
        return np.sort(held.begin_ns[held.src == end]), by


def learned_from(count: int) -> Ints:
    """New numbers of the steps to learn from: all, or ``LEARNED`` at equal distances.

    -1 for the others, and at the end, where an unknown step (-1) finds it.
    """
    chosen = np.linspace(0, count - 1, min(count, LEARNED)).astype(np.int64)
    number = np.full(count + 1, -1)
    number[chosen] = np.arange(chosen.size)
    return number


def _whole(steps: Ints, arrived: Ints) -> Ints:
    """Those of ``steps`` in which no message of a partner is missing; all if they are too few.

    ``arrived`` has messages of each partner in each step.
    """
    if not arrived.size or not steps.size:
        return steps
    usual = np.median(arrived[:, steps], axis=1, keepdims=True)
    whole = steps[(arrived[:, steps] == usual).all(axis=0)]
    return whole if whole.size >= ENOUGH else steps

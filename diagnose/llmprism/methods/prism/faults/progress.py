"""How far each rank of a pipeline came in a step that was never finished.

What a rank needs before it sends is learned from the finished steps: before its k-th message of
a step it has always received so many messages from each side. In the unfinished step a rank that
has received all of that, and does not send, is the one that stopped; the others lack something.
No order of passes has to be known, so this holds for every schedule.

A message through a silent NIC has no record. Then its sender seems to have stopped, and so does
each other rank that sends to the same NIC.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.messages import (
    Messages,
    message_sizes,
    messages_of,
    pipelines_behind,
)
from llmprism.methods.prism.faults.tails import Stuck, Tail
from llmprism.numerics.arrays import Ints, grouped, order_in_groups

ENOUGH = 3  # steps without lost records that show what a message needs
LEARNED = 24  # steps that a job's needs are learned from, where it has more


def stuck_in_pipeline(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """The endpoint that had all it needed for its next message for longest, and sent none."""
    rows = tail.rows.get("pp", np.empty(0, np.int64))
    learned = Needs(context, job)
    behind = pipelines_behind(context, job, rows)
    number = job.pipelines.number
    chosen = np.isin(number, list(behind)) if behind else number >= 0
    ready_ns: dict[int, int] = {}
    for end in job.phases.endpoints[chosen].tolist():
        at_ns = learned.ready_ns(end, rows, tail.begin_ns)
        if at_ns is not None and not learned.sent_the_last(end, rows, tail.begin_ns):
            ready_ns[end] = at_ns
    ready = sorted(ready_ns, key=lambda end: ready_ns[end])
    pipelines = number[np.searchsorted(job.phases.endpoints, ready)]
    if not ready or 2 * np.unique(pipelines).size > number.max() + 1:
        return None  # most of the replicas are in the same state: the records were cut there
    goals = {end: learned.next_goal(end, rows) for end in ready}
    near = dict.fromkeys([*goals[ready[0]], *ready])
    first = _silent_for_all(goals)
    if first is None and any(learned.lacks_records(end) for end in near):
        first = min(near, key=lambda end: learned.due_ns(end, rows, tail.begin_ns))
    if first is None:
        first = _alive_or(context, tail, ready[0], goals[ready[0]], ready_ns)
    others = near
    others.pop(first, None)
    shown_by = "received its input and sent nothing"
    return Stuck(first, ready_ns[ready[0]], shown_by, tuple(others), alone=bool(behind))


def _silent_for_all(goals: dict[int, list[int]]) -> int | None:
    """The endpoint that all messages that never came have in common, if there are several."""
    if len(goals) < 2:
        return None
    common = set.intersection(*({end, *goal} for end, goal in goals.items()))
    return common.pop() if len(common) == 1 else None


def _alive_or(
    context: Context, tail: Tail, sender: int, goals: list[int], ready_ns: dict[int, int]
) -> int:
    """``sender``, or the receiver of its next message, if that is silent and the sender is not.

    A NIC that carries anything later is not the silent one; a rank that sends anything later does
    not hang.
    """
    if len(goals) != 1 or goals[0] in ready_ns:
        return sender
    flows, goal = context.flows, goals[0]
    later = flows.start_ns > ready_ns[sender]
    if tail.next_ns is not None:
        later &= flows.end_ns < tail.next_ns
    sends = bool((flows.src[later] == sender).any())
    silent = not ((flows.src[later] == goal) | (flows.dst[later] == goal)).any()
    return goal if sends and silent else sender


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

    def lacks_records(self, end: int) -> bool:
        """Whether ``end`` does not send the same number of messages in all steps.

        Then some have no record, and those of the unfinished step are no measure either.
        """
        own = self._with(end)
        count = np.bincount(own.step[own.src == end], minlength=self._count - 1)
        return bool(np.ptp(count)) if count.size else False

    def sent_the_last(self, end: int, tail: Ints, begin_ns: int) -> bool:
        """Whether ``end`` sent as late as its last message, though some have no record."""
        return self.lacks_records(end) and np.isinf(self.due_ns(end, tail, begin_ns))

    def due_ns(self, end: int, tail: Ints, begin_ns: int) -> float:
        """When ``end`` usually sends the first message that it did not send; infinite: it sent all.

        Who waits for a message is due after the one that should have sent it.
        """
        sent, _ = self._events(end, tail)
        begin_ns = int(self._flows.start_ns[tail].min(initial=begin_ns + (1 << 60)))
        every, steps = self._all, self._count - 1
        first = np.full(self._count, np.iinfo(np.int64).max)
        np.minimum.at(first, every.step, every.begin_ns)
        own = self._with(end)
        out = own.src == end
        step, after_ns = own.step[out], (own.begin_ns - first[own.step])[out]
        count = np.bincount(step, minlength=steps)
        usual = int(np.bincount(count).argmax()) if count.size else 0
        whole = count[step] == usual
        order = np.lexsort((after_ns[whole], step[whole]))
        usually = np.median(after_ns[whole][order].reshape(-1, max(usual, 1)), axis=0)
        apart_ns = float(np.median(np.diff(usually))) if usual > 1 else 0.0
        last_ns = float(sent.max()) - begin_ns + apart_ns / 2 if sent.size else -np.inf
        due = usually[usually > last_ns]
        return begin_ns + float(due[0]) if due.size else np.inf

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

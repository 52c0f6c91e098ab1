"""How far each rank of a pipeline came in a step that was never finished.

What a rank needs before it sends is learned from the finished steps: before its k-th message of
a step it has always received so many messages from each side. In the unfinished step a rank that
has received all of that, and does not send, is the one that stopped; the others lack something.
No order of passes has to be known, so this holds for every schedule.

A message through a silent NIC has no record. Then its sender seems to have stopped, and so does
each other rank that sends to the same NIC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.parameters import FEWEST
from llmprism.methods.prism.stops.alive import alive_or, worked_on
from llmprism.methods.prism.stops.messages import (
    Messages,
    message_sizes,
    messages_of,
    pipelines_behind,
)
from llmprism.methods.prism.stops.tails import Stuck, Tail, unfinished_groups
from llmprism.numerics.arrays import Bools, Codes, Ints, grouped, order_in_groups

LEARNED = 24  # steps that a job's needs are learned from, where it has more
KEPT = 64  # endpoints whose messages are kept: those of all would be a copy of the records
NEVER = np.iinfo(np.int64).max
_Steps = tuple[Ints | Codes, Ints | Codes]  # rows, and the step of each


def stuck_in_pipeline(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """The endpoint that had all it needed for its next message for longest, and sent none."""
    rows = tail.rows.get("pp", np.empty(0, np.int64))
    if not rows.size:
        return None
    behind = pipelines_behind(context, job, rows)
    learned = lru_cache(KEPT)(Needs(context, job, rows, tail.begin_ns).of)
    ready_ns = _ready_ns(job, behind, learned)
    if not ready_ns:
        return None
    broken = unfinished_groups(context, job, tail)
    ready = sorted(ready_ns, key=lambda end: (ready_ns[end], learned(end).due_ns(), end))
    goals = {end: learned(end).next_goal() for end in ready}
    near = dict.fromkeys([*goals[ready[0]], *ready])
    first = _silent_for_all(goals)
    if first is None and any(learned(end).lacks_records for end in near):
        first = min(near, key=lambda end: learned(end).due_ns())
    if first is None:
        beside = partial(worked_on, context, job, ready[0], learned)
        first = alive_or(context, tail, ready[0], goals[ready[0]], ready_ns, beside)
    silent = [end for end in goals[ready[0]] if end in broken]
    first = silent[0] if len(silent) == 1 else first  # nor did it finish its gradients
    near.pop(first, None)
    shown_by = "received its input and sent nothing"
    return Stuck(first, ready_ns[ready[0]], shown_by, tuple(near), alone=bool(behind or silent))


def _ready_ns(job: JobView, behind: set[int], learned: Callable[[int], Progress]) -> dict[int, int]:
    """When each endpoint had all it needed for a message that it never sent.

    Of the pipelines ``behind``, or of all. Empty if such endpoints are in most of several
    pipelines: then the records were cut there.
    """
    ready_ns: dict[int, int] = {}
    number, found = job.pipelines.number, set[int]()
    count = int(number.max(initial=-1)) + 1
    chosen = np.flatnonzero(np.isin(number, [*behind]) if behind else number >= 0)
    for place in chosen[np.argsort(number[chosen], kind="stable")].tolist():
        end = int(job.phases.endpoints[place])
        at_ns = learned(end).ready_ns()
        if at_ns is not None and not learned(end).sent_the_last():
            ready_ns[end] = at_ns
            found.add(int(number[place]))
            if 2 * len(found) > max(count, 2):
                return {}
    return ready_ns


def _silent_for_all(goals: dict[int, list[int]]) -> int | None:
    """The endpoint that all messages that never came have in common, if there are several."""
    if len(goals) < 2:
        return None
    common = set.intersection(*({end, *goal} for end, goal in goals.items()))
    return common.pop() if len(common) == 1 else None


class Needs:
    """What the endpoints of a job's pipelines send and receive in finished steps, and in a tail.

    ``rows`` are those of the unfinished step, which begins at ``begin_ns``.
    """

    def __init__(self, context: Context, job: JobView, rows: Ints, begin_ns: int) -> None:
        flows = context.flows
        number = learned_from(job.count)
        lines = job.pipelines
        held = max(lines.messages, 1)
        own, step = _rows_of(job, number)
        self._flows = flows
        self._sizes = message_sizes(flows, own, step, held)
        self._steps = int(number.max(initial=-1))  # the last one may be unfinished
        self._learned: _Steps = own, step
        self._tail: _Steps = rows, np.zeros(rows.size, np.int64)
        self._begin_ns = begin_ns
        self._shown_ns = int(flows.start_ns[rows].min(initial=NEVER))
        self._first_ns = np.full(self._steps + 1, NEVER)
        np.minimum.at(self._first_ns, step, flows.start_ns[own])
        addresses = len(flows.addresses)
        self._by_end = [
            [grouped(side[held_in], addresses) for side in (flows.src, flows.dst)]
            for held_in in (own, rows)
        ]

    def of(self, end: int) -> Progress:
        """How far ``end`` came, and what it does in finished steps."""
        learned, tail = (
            self._messages(every, np.concatenate([by.rows(end) for by in grouped_by]))
            for every, grouped_by in zip((self._learned, self._tail), self._by_end, strict=True)
        )
        learned = learned.rows(learned.step < self._steps)
        return Progress(
            end, learned, self._first_ns, tail, max(self._steps, 0), self._begin_ns, self._shown_ns
        )

    def _messages(self, every: _Steps, chosen: Codes) -> Messages:
        """The messages of ``chosen`` records."""
        (rows, step), at = every, np.unique(chosen)
        return messages_of(self._flows, rows[at], step[at], self._sizes)


def _rows_of(job: JobView, number: Codes) -> tuple[Codes, Codes]:
    """Rows of the pipelines of ``job`` in the steps that have a ``number``, and that number."""
    parts = [part for part in job.phases.classes if part.kind == "pp"]
    rows, steps = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for part in parts:
        step = number[part.step]
        rows.append(part.one.traffic.row[step >= 0])
        steps.append(step[step >= 0])
    return np.concatenate(rows), np.concatenate(steps)


@dataclass(frozen=True)
class Progress:
    """How far an endpoint came in an unfinished step, and what it does in finished ones.

    Attributes
    ----------
    end : code of the endpoint.
    learned : its messages in finished steps, numbered from 0 to ``steps`` - 1.
    first_ns : when the job began each of these steps.
    tail : its messages in the unfinished step.
    begin_ns : when the step before ended; ``shown_ns`` : first record of the unfinished step.
    """

    end: int
    learned: Messages
    first_ns: Ints
    tail: Messages
    steps: int
    begin_ns: int
    shown_ns: int

    @cached_property
    def sent_ns(self) -> Ints:
        """When it began each message of the unfinished step, in order."""
        return np.sort(self.tail.begin_ns[self.tail.src == self.end])

    @cached_property
    def usually_sent_ns(self) -> Ints:
        """When it began each message of the finished steps, in order."""
        return np.sort(self.learned.begin_ns[self._sends])

    @cached_property
    def _sends(self) -> Bools:
        sends: Bools = self.learned.src == self.end
        return sends

    @cached_property
    def _count(self) -> Ints:
        """Messages that it sends in each finished step."""
        return np.bincount(self.learned.step[self._sends], minlength=self.steps)

    @property
    def lacks_records(self) -> bool:
        """Whether it does not send the same number of messages in all steps.

        Then some have no record, and those of the unfinished step are no measure either.
        """
        return bool(np.ptp(self._count)) if self._count.size else False

    def ready_ns(self) -> int | None:
        """When it had all it needed for the message it never sent; None if it lacked some.

        Also None if it has sent all of a step.
        """
        needed = self.needed(self.sent_ns.size)
        if needed is None:
            return None
        latest = max(self.begin_ns, int(self.sent_ns.max(initial=self.begin_ns)))
        into = self.tail.dst == self.end
        for partner, need in needed.items():
            came_ns = np.sort(self.tail.end_ns[into & (self.tail.src == partner)])
            if came_ns.size < need:
                return None
            if need:
                latest = max(latest, int(came_ns[need - 1]))
        return latest

    def needed(self, sent: int) -> dict[int, int] | None:
        """Messages of each partner that have always come before the next one after ``sent``.

        Of the steps in which it sends its usual number; None if it has sent as many.
        """
        own, step, steps, count = self.learned, self.learned.step, self.steps, self._count
        usual = int(np.median(count)) if steps else 0
        if sent >= usual:
            return None
        out, into = self._sends, own.dst == self.end
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
        least = came.reshape(-1, steps)[:, whole].min(axis=1, initial=NEVER)
        return dict(zip(partners.tolist(), least.tolist(), strict=True))

    def sent_the_last(self) -> bool:
        """Whether it sent as late as its last message, though some have no record."""
        return self.lacks_records and np.isinf(self.due_ns())

    def due_ns(self) -> float:
        """When it usually sends the first message that it did not send; infinite: it sent all.

        Who waits for a message is due after the one that should have sent it.
        """
        begin_ns = min(self.shown_ns, self.begin_ns + (1 << 60))
        step = self.learned.step[self._sends]
        after_ns = (self.learned.begin_ns - self.first_ns[self.learned.step])[self._sends]
        usual = int(np.bincount(self._count).argmax()) if self._count.size else 0
        whole = self._count[step] == usual
        order = order_in_groups(step[whole], after_ns[whole])
        usually = np.median(after_ns[whole][order].reshape(-1, max(usual, 1)), axis=0)
        apart_ns = float(np.median(np.diff(usually))) if usual > 1 else 0.0
        sent_ns = self.sent_ns
        last_ns = float(sent_ns.max()) - begin_ns + apart_ns / 2 if sent_ns.size else -np.inf
        due = usually[usually > last_ns]
        return begin_ns + float(due[0]) if due.size else np.inf

    def next_goal(self) -> list[int]:
        """Where the message that it never sent goes in finished steps; nowhere if that varies."""
        own, out = self.learned, self._sends
        begin, step, goal = own.begin_ns[out], own.step[out], own.dst[out]
        order = order_in_groups(step, begin)
        step, goal = step[order], goal[order]
        place = np.arange(step.size) - np.searchsorted(step, step)
        goals = np.unique(goal[place == self.sent_ns.size])
        return goals.tolist() if goals.size == 1 else []


def learned_from(count: int) -> Codes:
    """New numbers of the steps to learn from: all, or ``LEARNED`` at equal distances.

    -1 for the others, and at the end, where an unknown step (-1) finds it.
    """
    chosen = np.linspace(0, count - 1, min(count, LEARNED)).astype(np.int64)
    number = np.full(count + 1, -1, np.int32)
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
    return whole if whole.size >= FEWEST else steps

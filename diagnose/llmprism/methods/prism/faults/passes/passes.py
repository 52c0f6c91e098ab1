"""How long a stage of a pipeline computes: from what it was given to what it sends on.

A stage works through its messages in order. It begins a piece of work when its input has
arrived and the piece before is sent, whichever is later, and ends it by sending the result.
So the time between is work alone: a stage that only waits for a slow one does not look slow.
A stage that has only just ended the step before, with the exchange of its gradients, has its
update and its host work to do as well: how long that pass takes is not known.

The input of an activation is the activation of the same number from the stage before; that of
a gradient is the gradient from the stage after, in the last stage the activation itself. The
first stage gets its data from elsewhere: its k-th activation waits for the gradient of the
micro-batch that many before as it has outstanding at most.

Some libraries move a message only when the receiver asks for it. A sender then looks slow if
its receiver is busy. So there is a second measure: the time since the receiver last sent
something itself, which a busy receiver does right before it asks. A stage is slow only if it
is slow by both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.measures.bursts import Bursts, bursts_of
from llmprism.numerics.arrays import Bools, Floats, Ints, by_parts, order_in_groups
from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import compile_early
from llmprism.numerics.missing import nanmedian

FORTH, BACK = 0, 1  # activations, gradients


@dataclass(frozen=True)
class Passes:
    """Messages of the pipelines of one job. Times in ns, NaN where unknown.

    Attributes
    ----------
    out, into : when each message began to be sent, and when it had arrived; by endpoint, step,
        direction and number, shape (endpoints, steps, 2, messages).
    to : endpoint that each endpoint sends to, -1 if none, shape (2, endpoints).
    stage : of each endpoint, -1 if it is in no pipeline.
    stages : of a pipeline.
    depth : micro-batches that the first stage has outstanding at most.
    ended : when each endpoint ended the step before, shape (endpoints, steps).
    """

    out: Floats
    into: Floats
    to: Ints
    stage: Ints
    stages: int
    depth: int
    ended: Floats

    @property
    def messages(self) -> int:
        """Messages of a step, both directions."""
        return 2 * int(self.out.shape[3])

    @property
    def single(self) -> bool:
        """Whether a step has a single message each way."""
        return bool(self.out.shape[3] == 1)

    @property
    def sent(self) -> Floats:
        """When each message began to be sent, shape (endpoints, steps, messages)."""
        return self._in_one(self.out)

    @cached_property
    def work_ns(self) -> Floats:
        """Time from input to output, shape (endpoints, steps, messages)."""
        given = self._in_one(self._given())
        unknown = ~(self._without_input() | np.isfinite(given))
        work = np.fmax(given, one_before(self.sent), out=given)  # when each pass began
        np.subtract(self.sent, work, out=work)
        work[unknown | ~(work > 0)] = np.nan
        work[begun_at_once(work, self.sent, self.ended)] = np.nan
        return work

    def since_receiver_ns(self, endpoints: Ints) -> Floats:
        """Time since the receiver last sent before each message of ``endpoints``, or ``work_ns``.

        The smaller of the two, shape (endpoints, steps, messages).
        """
        work = self.work_ns[endpoints].copy()
        half = self.messages // 2
        for row, end in enumerate(endpoints.tolist()):
            for way in (FORTH, BACK):
                peer, part = int(self.to[way, end]), slice(way * half, (way + 1) * half)
                if peer >= 0:
                    since = since_last_ns(self.sent[end, :, part], self.sent[peer])
                    work[row, :, part] = np.fmin(work[row, :, part], since)
        return work

    def _without_input(self) -> Bools:
        """Messages that wait for no other message: the first activations of the first stage."""
        free = np.zeros(self.sent.shape, np.bool_)
        ahead = self.depth if self.depth < self.out.shape[3] else self.out.shape[3]
        free[self.stage == 0, :, : max(ahead, 1)] = True
        return free

    def _given(self) -> Floats:
        given = self.into.copy()
        last, first = self.stage == self.stages - 1, self.stage == 0
        given[last, :, BACK] = self.into[last, :, FORTH]
        if 0 < self.depth < self.out.shape[3]:
            given[first, :, FORTH, self.depth :] = self.into[first, :, BACK, : -self.depth]
        return given

    def _in_one(self, times: Floats) -> Floats:
        """Messages of both directions in one row, activations first."""
        return times.reshape(*times.shape[:2], self.messages)


@measured_once
def passes_of(context: Context, job: JobView) -> Passes | None:
    """Read the messages of a job's pipelines; None where there are none or they are merged.

    Stages that may hold several parts of the model are taken to hold one.
    """
    lines, flows = job.pipelines, context.flows
    messages = lines.messages if lines.chunks == 0 else lines.micro_batches
    shape = (job.phases.endpoints.size, job.count, 2, max(messages, 0))
    if lines.length < 2 or lines.chunks > 1 or shape[3] < 1:
        return None
    place = np.full(len(flows.addresses), -1)
    place[job.phases.endpoints] = np.arange(shape[0])
    out, into = np.full(shape, np.nan), np.full(shape, np.nan)
    to = np.full((2, shape[0]), -1)
    for part in job.phases.classes:
        if part.kind != "pp":
            continue
        bursts = bursts_of(context, job, part)
        src, dst = place[flows.src[bursts.row]], place[flows.dst[bursts.row]]
        way = (lines.stage[dst] < lines.stage[src]).astype(np.int64)
        to[way, src] = dst
        held = _messages_of(job, bursts, shape[3])
        for ends, who, times, last in (
            (out, src, bursts.start_ns, False),
            (into, dst, bursts.end_ns, True),
        ):
            when = (times - job.ranks.origin_ns).astype(np.float64)
            _place(ends, (who, bursts.step, way), when, held, last=last)
    ended = step_before_ended(job)
    return Passes(out, into, to, lines.stage, lines.length, lines.deepest, ended)


def step_before_ended(job: JobView) -> Floats:
    """When each endpoint ended the step before each one, (endpoints, steps); NaN: none before."""
    ended = np.full(job.ranks.end.shape, np.nan)
    ended[:, 1:] = job.ranks.end[:, :-1]
    ended[:, job.phases.first_of_epoch] = np.nan
    return ended


def begun_at_once(work: Floats, sent: Floats, ended: Floats) -> Bools:
    """First passes of a step before which an endpoint waited for less than one since it ``ended``.

    Of passes of the lengths ``work``, shape (endpoints, steps, messages). What was sent before that
    end did not wait for it.
    """
    usual = nanmedian(work.reshape(len(work), -1), axis=1)[:, None, None]
    since = sent - ended[:, :, None]
    with np.errstate(invalid="ignore"):
        found: Bools = np.isnan(one_before(sent)) & (since > 0) & (since - work < usual)
    return found


def _messages_of(job: JobView, bursts: Bursts, messages: int) -> Ints:
    """How many messages each burst holds: more than one where the silence between was short."""
    lane = bursts.place * job.count + bursts.step
    volume = np.bincount(lane, bursts.size)
    one = float(np.median(volume[volume > 0])) / messages if volume.any() else 1.0
    held: Ints = np.maximum(np.rint(bursts.size / one), 1).astype(np.int64)
    return held


def _place(
    ends: Floats, where: tuple[Ints, Ints, Ints], when: Floats, held: Ints, *, last: bool
) -> None:
    """Put times into their cells in order; a step with another number of messages is left out.

    Of a burst that holds several messages only the begin of the first one and the end of the last
    one are known. ``where`` has endpoint, step and direction of each burst.
    """
    endpoints, steps, _, messages = ends.shape
    who, step, way = where
    cell = (who * steps + step) * 2 + way
    order = order_in_groups(cell, when)
    cell, held = np.repeat(cell[order], held[order]), held[order]
    known = np.cumsum(held) - 1 if last else np.cumsum(held) - held
    times = np.full(cell.size, np.nan)
    times[known] = when[order]
    count = np.bincount(cell, minlength=2 * endpoints * steps)
    number = np.arange(cell.size) - (np.cumsum(count) - count)[cell]
    whole = count[cell] == messages
    ends.reshape(-1, messages)[cell[whole], number[whole]] = times[whole]


def one_before(sent: Floats) -> Floats:
    """When the endpoint sent the message before each one, in the same step."""
    return by_parts(_one_before, sent)


def _one_before(sent: Floats) -> Floats:
    order = np.argsort(sent, axis=-1, kind="stable")
    ordered = np.take_along_axis(sent, order, axis=-1)
    before = np.full_like(sent, np.nan)
    before[..., 1:] = ordered[..., :-1]
    place = np.empty_like(sent)
    np.put_along_axis(place, order, before, axis=-1)
    return place


@compiled
def since_last_ns(when: Floats, sent: Floats) -> Floats:
    """Time from the latest of ``sent`` before each of ``when``, by step; NaN if there is none."""
    steps, messages = when.shape
    since = np.full((steps, messages), np.nan)
    for step in range(steps):
        for i in range(messages):
            latest = -np.inf
            for other in sent[step]:
                if latest < other < when[step, i]:
                    latest = other
            if latest > -np.inf:
                since[step, i] = when[step, i] - latest
    return since


_BOTH = np.zeros((2, 2))
# One direction of the messages, and both.
compile_early(since_last_ns, lambda: (_BOTH[:, :1], _BOTH))

"""Passes of pipelines whose schedule is not known: what each message needs is learned.

A rank of an interleaved schedule holds several parts of the model, and passes on activations and
gradients of each, in an order that differs between libraries. But the order of a rank is the same
in every step. So of the messages that a partner sends, those that have come before a message in
every step are all that it can need from that partner. The rank began the pass when the last of
them had arrived, or when it had sent its own message before.

That a message has come in time in each step does not prove that it is needed. If it is not, the
pass seems shorter, in healthy steps as well, and small changes of it seem larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.measures.bursts import Bursts, bursts_of
from llmprism.methods.prism.faults.passes.passes import (
    Passes,
    begun_at_once,
    one_before,
    passes_of,
    since_last_ns,
    step_before_ended,
)
from llmprism.numerics.arrays import Floats, Ints, order_in_groups

COARSE = 0.1  # of a pass: a clock that is coarser does not tell what came before it
ENOUGH = 6  # whole steps that show what a message needs


@dataclass(frozen=True)
class LearnedPasses:
    """Messages of the pipelines of one job. Times in ns, NaN where unknown.

    Attributes
    ----------
    sent, work_ns : when each message began to be sent, and the time of the pass before it, shape
        (endpoints, steps, messages).
    peers : of each endpoint, the endpoints that it sends to, and which messages go there.
    """

    sent: Floats
    work_ns: Floats
    peers: tuple[dict[int, slice], ...]

    @property
    def single(self) -> bool:
        """Whether a record holds all messages of a step to an endpoint."""
        return all(part.stop - part.start == 1 for own in self.peers for part in own.values())

    def shows_passes(self, tick_ns: float) -> bool:
        """Whether records show single messages, and their clock with such a tick a pass.

        A coarse one shows messages at once that come one after the other.
        """
        known_ns = self.work_ns[np.isfinite(self.work_ns)]
        return (
            not self.single and known_ns.size > 0 and tick_ns < COARSE * float(np.median(known_ns))
        )

    @property
    def to(self) -> Ints:
        """Up to two endpoints that each endpoint sends to, -1 for none, shape (2, endpoints)."""
        both = [([*own, -1, -1])[:2] for own in self.peers]
        return np.array(both, np.int64).reshape(-1, 2).T

    def since_receiver_ns(self, endpoints: Ints) -> Floats:
        """Time since the receiver last sent before each message, or ``work_ns`` if it is less."""
        work = self.work_ns[endpoints].copy()
        for row, end in enumerate(endpoints.tolist()):
            for peer, part in self.peers[end].items():
                since = since_last_ns(self.sent[end, :, part], self.sent[peer])
                work[row, :, part] = np.fmin(work[row, :, part], since)
        return work


@dataclass(frozen=True)
class Lane:
    """Messages from one endpoint to another, in order: ``sent`` and ``got``, (steps, messages).

    NaN in steps without the usual number of records.
    """

    src: int
    dst: int
    sent: Floats
    got: Floats


AnyPasses = Passes | LearnedPasses


def shown_passes(context: Context, job: JobView) -> AnyPasses | None:
    """The passes of a job's pipelines, learned where their order is not known; None: merged."""
    if job.pipelines.length == 1 or job.pipelines.chunks == 1:
        return passes_of(context, job)
    learned = learned_passes(context, job)
    tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    if learned and learned.shows_passes(tick_ns):
        return learned
    return None if job.pipelines.chunks else passes_of(context, job)


@measured_once
def learned_passes(context: Context, job: JobView) -> LearnedPasses | None:
    """The passes of a job's pipelines; None where there are no messages."""
    lanes = _lanes(context, job)
    rows = job.phases.endpoints.size
    by_src = [[one for one in lanes if one.src == row] for row in range(rows)]
    most = max((sum(one.sent.shape[1] for one in own) for own in by_src), default=0)
    if not most:
        return None
    sent, work = np.full((2, rows, job.count, most), np.nan)
    peers: list[dict[int, slice]] = [{} for _ in range(rows)]
    for row, own in enumerate(by_src):
        at = 0
        for one in own:
            part = slice(at, at := at + one.sent.shape[1])
            peers[row][one.dst] = part
            sent[row, :, part] = one.sent
        given = [_given(sent[row], one.got) for one in lanes if one.dst == row]
        before = one_before(sent[row])
        begin = np.maximum.reduce([np.where(np.isnan(before), -np.inf, before), *given])
        work[row] = np.where(np.isinf(begin), np.nan, sent[row] - begin)
    work[~(work > 0)] = np.nan
    work[begun_at_once(work, sent, step_before_ended(job))] = np.nan
    return LearnedPasses(sent, work, tuple(peers))


def _given(sent: Floats, got: Floats) -> Floats:
    """When the last message of a partner had come that each of ``sent`` can need.

    NaN in steps in which that is not known; no time at all if it needs none, or no step shows it.
    """
    known = np.isfinite(got).all(axis=1) & np.isfinite(sent).any(axis=1)
    if known.sum() < ENOUGH:
        return np.full(sent.shape, -np.inf)
    came = (got[known][:, :, None] <= sent[known][:, None, :]).sum(axis=1)
    least = np.where(np.isfinite(sent[known]), came, got.shape[1]).min(axis=0)
    padded = np.concatenate((np.full((len(got), 1), -np.inf), np.sort(got, axis=1)), axis=1)
    return padded[:, least]


def _lanes(context: Context, job: JobView) -> list[Lane]:
    """The messages of all pipelines of ``job``."""
    place = np.full(len(context.flows.addresses), -1)
    place[job.phases.endpoints] = np.arange(job.phases.endpoints.size)
    found = []
    for part in job.phases.classes:
        if part.kind == "pp":
            bursts = bursts_of(context, job, part)
            edges = np.flatnonzero(np.diff(bursts.place)) + 1
            for rows in np.split(np.arange(bursts.place.size), edges):
                if rows.size:
                    row = bursts.row[rows[0]]
                    src, dst = place[context.flows.src[row]], place[context.flows.dst[row]]
                    found.append(_lane(job, bursts, rows, (int(src), int(dst))))
    return found


def _lane(job: JobView, bursts: Bursts, rows: Ints, ends: tuple[int, int]) -> Lane:
    """The bursts ``rows`` of one connection, with one column for each message of a step."""
    records = np.bincount(bursts.step[rows], minlength=job.count)
    usual = int(np.bincount(records[records > 0]).argmax())
    whole = records == usual
    own = rows[whole[bursts.step[rows]]]
    order = order_in_groups(bursts.step[own], bursts.start_ns[own])
    sent, got = np.full((2, job.count, usual), np.nan)
    for table, times in ((sent, bursts.start_ns), (got, bursts.end_ns)):
        table[whole] = (times[own][order] - job.ranks.origin_ns).reshape(-1, usual)
    return Lane(*ends, sent, got)

"""Ranks that compute slowly, seen where a pipeline shows how long each stage works.

All ranks of a tensor-parallel group are as slow as the slowest of them, and flows show no
traffic between them: where the NICs of a server are slow together, the server is named.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.faults.causes.imbalance import by_experts
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.lateness.own_time import lost_share
from llmprism.methods.prism.faults.measures.rates import ROUNDING, slow_messages_at
from llmprism.methods.prism.faults.measures.series import (
    Judged,
    bridged,
    by_message,
    excess_of,
    healthy,
    judged,
)
from llmprism.methods.prism.faults.passes.edges import edge_passes_ns
from llmprism.methods.prism.faults.passes.learned_passes import AnyPasses, shown_passes
from llmprism.methods.prism.faults.suspects.cost import healthy_share
from llmprism.methods.prism.faults.suspects.ranks import Slowness
from llmprism.methods.prism.faults.suspects.stages import stages_and_ranks
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools, Floats, by_parts
from llmprism.numerics.missing import nanmedian

LEAST = 0.03  # less than this is no slow rank but the spread of healthy ones
OWN = 0.5  # share of the lost time that must remain if the receiver may have been busy
MOST = 0.6  # share of the ranks, more than one stage of two; beyond it the job's work changed
ALIKE = 0.5  # of the excess of the slowest rank: others that are slow as well
WAITING = 0.25  # ... and less than this is waiting, where an edge holds some
SHOWN = 0.25  # of all passes of a job: half of those of an end stage, which sends one way only
KNOWN = 0.75  # of the steps: so many show what a pass of a rank takes in healthy ones
SEVERAL = 3  # servers with slow ranks in merged records: work that is unevenly divided, not each
COARSE = 0.1  # of a pass: a clock that is coarser does not resolve one


def slow_compute(context: Context) -> Iterator[Suspect]:
    """Bring forward ranks whose passes take longer than in their healthy steps."""
    for job in context.jobs:
        passes = shown_passes(context, job)
        found: list[Suspect] = []
        if passes is not None and (job.pipelines.length == 1 or _shown(passes)):
            found = [*_of_passes(context, job, passes)]
            unknown = np.isfinite(passes.work_ns).any(axis=2).mean(axis=1) < KNOWN
        else:
            unknown = np.ones(job.phases.endpoints.size, np.bool_)
        if job.pipelines.length > 1 and not found:
            found = [*_of_merged(context, job, unknown)]
        yield from (by_experts(context, one) for one in found)


def _shown(passes: AnyPasses) -> bool:
    """Whether records show single messages, not only the first and the last of several."""
    return not passes.single and bool(np.isfinite(passes.work_ns).mean() > SHOWN)


def _of_passes(context: Context, job: JobView, passes: AnyPasses) -> Iterator[Suspect]:
    """Suspects where records show single messages."""
    own = _judged(context, passes)
    slow = _slow(context, job, passes, own)
    slow = bridged(slow, np.isfinite(own.ratio))
    lost, surely = (lost_share(context, job, cautious=c) for c in (False, True))
    assert lost is not None  # there are passes
    assert surely is not None
    seen = Slowness("slow_passes", own.ratio, own.noise, slow, lost, surely)
    yield from stages_and_ranks(context, job, seen)


def _of_merged(context: Context, job: JobView, unknown: Bools) -> Iterator[Suspect]:
    """Suspects where a record holds all messages of a step: its begin and end show two passes.

    Of endpoints whose other passes are ``unknown``: also if those of a slow one are known in slow
    steps alone, in which silences part its messages.

    Ranks of a job do about as much. Where a pass seems far shorter than those of others, its record
    begins or ends with another message, and what it takes longer is compared with theirs.
    """
    work = edge_passes_ns(context, job)
    usual_ns = healthy(by_message(work))
    pass_ns = np.fmax(usual_ns, nanmedian(usual_ns, axis=0))
    relative = 1 + (work - usual_ns[:, None, :]) / pass_ns[:, None, :]
    tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    shortest_ns = np.fmin.reduce(pass_ns, axis=1)
    finest = np.nan_to_num(ROUNDING * tick_ns / np.where(shortest_ns > 0, shortest_ns, np.nan))
    own = judged(nanmedian(relative, axis=2), LEAST, finest, levels=True)
    slow: Bools = (
        own.lasting
        & own.near_worst(WAITING)
        & (own.near_worst(ALIKE).mean(axis=0) <= MOST)[None, :]
        & unknown[:, None]
    )
    if slow.any():
        slow &= ~slow_messages_at(context, job)
    nothing = np.full(own.ratio.shape, np.nan)
    # No step is longer by more than its slowest rank.
    at_most = (own.ratio - 1) * healthy_share(job)
    seen = Slowness("slow_passes", own.ratio, own.noise, slow, at_most, nothing)
    found = [*stages_and_ranks(context, job, seen)]
    ranks = [one for one in found if one.level == "rank"]
    if len(ranks) < SEVERAL or sum(one.is_believed for one in ranks) < SEVERAL:
        yield from found


def _judged(context: Context, passes: AnyPasses) -> Judged:
    """Work in each step over that of healthy steps, by endpoint.

    The median over the step's messages, as single passes may be long. Where the clock is coarse
    for a pass, the mean: a median of rounded times is a rounded time.
    """
    tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    series = by_message(passes.work_ns)
    usual = nanmedian(series.reshape(len(series), -1), axis=1)
    count = np.isfinite(passes.work_ns).sum(axis=2)
    finest = ROUNDING * tick_ns / np.sqrt(np.maximum(count.max(axis=1), 1)) / usual
    finest = np.where(np.isfinite(finest), finest, 0.0)
    known_ns = usual[np.isfinite(usual)]
    if known_ns.size and np.median(known_ns) * COARSE > tick_ns:
        middle = by_parts(_middle, series)
    else:
        total = np.nansum(passes.work_ns, axis=2)
        middle = np.where(count > 0, total, np.nan) / np.maximum(count, 1)
    return judged(middle, LEAST, finest, peers=True, levels=True)


def _middle(series: Floats) -> Floats:
    """Median over messages of each over its healthy value, (endpoints, steps)."""
    return nanmedian(series / healthy(series)[..., None], axis=1)


def _excess(work: Floats) -> Floats:
    """Work in each step beyond that of healthy steps [ns], mean over the step's messages."""
    excess, known = excess_of(work)
    mean: Floats = excess / np.maximum(known, 1)
    return mean


def _by_receivers_ns(passes: AnyPasses, out: Bools) -> Floats:
    """What those that an endpoint sends to work longer where they are ``out``: it waits no longer.

    The larger one, mean over a step's messages [ns], (endpoints, steps); 0 where they are not slow.
    """
    own_ns = np.where(out, _excess(passes.work_ns), 0.0)
    padded = np.concatenate((own_ns, np.zeros((1, out.shape[1]))))  # -1: who sends to nobody
    most: Floats = np.maximum(padded[passes.to[0]], padded[passes.to[1]])
    return most


def _slow(context: Context, job: JobView, passes: AnyPasses, own: Judged) -> Bools:
    """Steps in which each endpoint itself is slow: not its receiver, nor its transfers."""
    slow: Bools = own.lasting & (own.near_worst(ALIKE).mean(axis=0) <= MOST)[None, :]
    rows = np.flatnonzero(slow.any(axis=1))
    if rows.size:
        own_ns, work_ns = (
            _excess(times) for times in (passes.since_receiver_ns(rows), passes.work_ns[rows])
        )
        at_least_ns = np.fmax(own_ns, work_ns - _by_receivers_ns(passes, own.out)[rows])
        slow[rows] &= at_least_ns >= OWN * work_ns
        slow[rows] &= ~slow_messages_at(context, job)[rows]
    return slow

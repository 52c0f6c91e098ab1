"""Time that each rank itself loses in each step: neither waiting for others, nor on the wire.

In a pipeline it is the time from what a stage was given to what it sends, summed over the
messages of a step, or that of its first and its last pass, which merged records show as well. In
a first stage, what it loses before it begins the step is added.
Without a pipeline it is the lateness at the collectives, summed over those of a step: a rank is
late by what it lost since the last one, because they end together.

Each is taken relative to the healthy value of the same rank, so ranks may differ.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.bursts import Bursts, bursts_of
from llmprism.methods.prism.faults.collectives import collectives_of
from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.edges import edge_passes_ns
from llmprism.methods.prism.faults.late_starts import lost_at_start_ns
from llmprism.methods.prism.faults.learned_passes import AnyPasses, shown_passes
from llmprism.methods.prism.faults.rings import EXACT, late_in_rings_ns
from llmprism.methods.prism.faults.series import DEVIATIONS, excess_of
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import TO_SIGMA, nanmedian

SMALLEST = 3  # members of a group that show a late one
WHOLE = 0.9  # quantile of the bytes of a connection in a step that shows all that it moves


@measured_once
def lost_share(context: Context, job: JobView, *, cautious: bool) -> Floats | None:
    """Time each endpoint loses in each step, as a share of a usual step, shape (endpoints, steps).

    None where the traffic shows no rank's own time. To be ``cautious`` is to count only what is not
    waiting for a busy receiver: the time since it last sent, and what is more than it lost itself.
    """
    if not job.period_ns > 0:
        return None
    passes = shown_passes(context, job)
    at_edges = _lost_at_edges_ns(context, job) / job.period_ns
    if passes is None:
        shown = np.isfinite(at_edges).any()
        return at_edges if shown else lateness_ns(context, job) / job.period_ns
    shares = _lost_in_passes_ns(passes.work_ns) / job.period_ns
    if cautious:
        since = passes.since_receiver_ns(np.arange(job.phases.endpoints.size))
        at_least = np.fmin(shares, _lost_in_passes_ns(since) / job.period_ns)
        shares = np.fmax(at_least, shares - _lost_by_receiver(passes, shares))
    shares = shares + lost_at_start_ns(context, job) / job.period_ns
    known = np.isfinite(passes.work_ns).sum(axis=2)
    own = known.max(axis=1, keepdims=True)
    return np.where(known < own, np.fmax(shares, at_edges), shares)  # an edge may be unknown


def _lost_in_passes_ns(work: Floats) -> Floats:
    """How much longer the passes of a step take than in healthy steps [ns], (endpoints, steps).

    The messages that are known stand for the others, if they are the most.
    """
    excess, known = excess_of(work)
    own = known.max(axis=1, keepdims=True)  # messages of a step that the endpoint sends itself
    total = excess * own / np.maximum(known, 1)
    return np.where(known > own / 2, total, np.nan)


def _lost_by_receiver(passes: AnyPasses, lost: Floats) -> Floats:
    """What one that an endpoint sends to lost itself: it kept the sender waiting no longer.

    By endpoint and step; infinite where it is not known.
    """
    none = np.zeros((1, lost.shape[1]))  # for those who send to nobody: index -1
    padded = np.concatenate((np.maximum(np.nan_to_num(lost, nan=np.inf), 0.0), none))
    most: Floats = np.maximum(padded[passes.to[0]], padded[passes.to[1]])
    return most


def _lost_at_edges_ns(context: Context, job: JobView) -> Floats:
    """How much longer the first and last pass of each endpoint take than in healthy steps [ns]."""
    excess, known = excess_of(edge_passes_ns(context, job))
    return np.where(known > 0, excess, np.nan)


@measured_once
def lateness_ns(context: Context, job: JobView) -> Floats:
    """By how much each endpoint is later at collectives than its group [ns], summed over a step.

    A hop of a collective begins when both of its ends are there, so the earliest begin of any hop
    of a rank is the latest moment at which it can have arrived.
    """
    shape = (job.phases.endpoints.size, job.count)
    late = np.full(shape, np.nan)
    for part in collectives_of(context, job):
        begins = _begins(context, job, bursts_of(context, job, part))
        for one in np.unique(job.phases.dp_group[job.phases.dp_group >= 0]).tolist():
            rows = np.flatnonzero(job.phases.dp_group == one)
            if rows.size < SMALLEST or not begins.shape[2]:
                continue
            own = begins[rows]
            away = own - nanmedian(own, axis=0)[None]
            with_any = np.isfinite(away).any(axis=2)
            total = np.where(with_any, np.nansum(away, axis=2), np.nan)
            late[rows] = np.fmax(late[rows], total)
    in_rings = late_in_rings_ns(context, job)
    return np.where(np.isfinite(in_rings), in_rings, late)


def _begins(context: Context, job: JobView, bursts: Bursts) -> Floats:
    """Earliest begin of the k-th burst of any hop of each endpoint, (endpoints, steps, bursts).

    Bursts have the same number on all hops only where all have equally many; a step in which one
    has another number (records are lost, or merged) counts with its first burst only. A hop that
    lacks bytes in a step may have begun earlier, so nothing is known about its ends.
    """
    cell = bursts.place * job.count + bursts.step
    number = np.arange(cell.size) - np.searchsorted(cell, cell)
    counts = np.bincount(cell) if cell.size else np.zeros(0, np.int64)
    usual = int(np.median(counts[counts > 0])) if counts.any() else 0
    begins = np.full((job.phases.endpoints.size, job.count, usual), np.inf)
    group = job.phases.dp_group[
        np.searchsorted(job.phases.endpoints, context.flows.src[bursts.row])
    ]
    lane = (group + 1) * job.count + bursts.step
    unusual = np.bincount(lane, counts[cell] != usual) > 0 if cell.size else cell > 0
    use = (number < usual) & (~unusual[lane] | (number == 0)) if cell.size else cell > 0
    unknown = _lack_bytes(job, bursts)
    when = (bursts.start_ns - job.ranks.origin_ns).astype(np.float64)
    for codes in (context.flows.src, context.flows.dst):
        place = np.searchsorted(job.phases.endpoints, codes[bursts.row])
        np.minimum.at(begins, (place[use], bursts.step[use], number[use]), when[use])
        begins[place[unknown], bursts.step[unknown]] = -np.inf
    return np.where(np.isinf(begins), np.nan, begins)


def _lack_bytes(job: JobView, bursts: Bursts) -> Bools:
    """Whether the connection of each burst moved less than usual in the step.

    What it sends first, before it waits for a late rank, may be too little to be taken for data;
    or a record is lost. Where telemetry samples, bytes vary, and that is no lack.
    """
    if not bursts.place.size:
        return bursts.place > 0
    hops = int(bursts.place.max()) + 1
    cell = bursts.place * job.count + bursts.step
    volume = np.bincount(cell, bursts.size, hops * job.count).reshape(hops, job.count)
    usual = np.quantile(volume, WHOLE, axis=1, keepdims=True)
    varies = TO_SIGMA * np.median(np.abs(np.diff(volume, axis=1)), axis=1, keepdims=True)
    lacking = usual - volume > np.maximum(EXACT * usual, DEVIATIONS * varies)
    of_burst: Bools = lacking.ravel()[cell]
    return of_burst


def rows_of_servers(context: Context, job: JobView) -> list[Ints]:
    """Rows of the endpoints of each server, in order of the servers."""
    servers = context.topology.servers[job.phases.endpoints]
    return [np.flatnonzero(servers == one) for one in np.unique(servers).tolist()]

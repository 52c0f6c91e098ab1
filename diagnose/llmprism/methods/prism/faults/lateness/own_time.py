"""Time that each rank itself loses in each step: neither waiting for others, nor on the wire.

In a pipeline it is the time from what a stage was given to what it sends, summed over the
messages of a step, or that of its first and its last pass, which merged records show as well. In
a first stage, what it loses before it begins the step is added, and after its last gradient:
it sends nothing after its last backward passes but gradients to its replicas.
Without a pipeline it is the lateness at the collectives, summed over those of a step: a rank is
late by what it lost since the last one, because they end together.

Each is taken relative to the healthy value of the same rank, so ranks may differ.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.measures.bursts import SHORT, Bursts, bursts_of
from llmprism.methods.prism.faults.measures.collectives import one_way_collectives_of
from llmprism.methods.prism.faults.measures.series import DEVIATIONS, excess_of
from llmprism.methods.prism.faults.passes.edges import edge_passes_ns
from llmprism.methods.prism.faults.passes.late_starts import lost_at_start_ns
from llmprism.methods.prism.faults.passes.learned_passes import AnyPasses, shown_passes
from llmprism.methods.prism.faults.passes.passes import one_before
from llmprism.methods.prism.faults.rings.rings import EXACT, late_in_rings_ns
from llmprism.methods.prism.faults.rings.waiting_hops import late_at_hops_ns
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import TO_SIGMA, finite_median, nanmedian

SMALLEST = 3  # members of a group that show a late one
SAME = 0.25  # of a collective's share of a step's bytes: bursts that begin so near are of one
MOST_CELLS = 0.5  # of the hops and steps: so many have a burst that begins there
OF_WAIT = 0.8  # of what a ring waits for longest: a rank that is later than that explains it
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
        if not np.isfinite(at_edges).any():
            return lateness_ns(context, job) / job.period_ns
        shown = np.isfinite(edge_passes_ns(context, job))[:, :, 0]
        return at_edges + lost_at_start_ns(context, job, shown) / job.period_ns
    shares = _lost_in_passes_ns(passes.work_ns) / job.period_ns
    if cautious:
        since = passes.since_receiver_ns(np.arange(job.phases.endpoints.size))
        at_least = np.fmin(shares, _lost_in_passes_ns(since) / job.period_ns)
        at_least = np.fmax(at_least, shares - _lost_by_receiver(passes, shares))
        shares = np.where(np.isnan(shares), np.nan, at_least)
    at_start_ns = lost_at_start_ns(context, job, _shows_first(passes))
    beside_ns = at_start_ns + _lost_at_end_ns(context, job)
    shares = shares + beside_ns / job.period_ns
    known = np.isfinite(passes.work_ns).sum(axis=2)
    own = known.max(axis=1, keepdims=True)
    return np.where(known < own, np.fmax(shares, at_edges), shares)  # an edge may be unknown


def _shows_first(passes: AnyPasses) -> Bools:
    """Whether it is known how long the first pass of each endpoint and step takes."""
    first = np.isnan(one_before(passes.sent)) & np.isfinite(passes.sent)
    shown: Bools = np.any(first & np.isfinite(passes.work_ns), axis=2)
    return shown


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


def _lost_at_end_ns(context: Context, job: JobView) -> Floats:
    """Time that each first stage loses after the last gradient it gets [ns], (endpoints, steps).

    No message shows its last backward passes: in GPipe with two stages, none of them.
    """
    excess, known = excess_of(edge_passes_ns(context, job)[:, :, 1:])
    own = (job.pipelines.stage == 0)[:, None] & (known > 0)
    return np.where(own, np.maximum(excess, 0.0), 0.0)


@measured_once
def lateness_ns(context: Context, job: JobView, *, every: bool = False) -> Floats:
    """By how much each endpoint is later at collectives than its group [ns], summed over a step.

    Unless ``every`` collective counts, only the first one does in steps in which records are cut
    or merged: what the others show varies more.

    A hop of a collective begins when both of its ends are there, so the earliest begin of any hop
    of a rank is the latest moment at which it can have arrived.
    """
    shape = (job.phases.endpoints.size, job.count)
    late = np.full(shape, np.nan)
    begun: list[Floats] = []
    for part in one_way_collectives_of(context, job):
        begins = _begins(context, job, bursts_of(context, job, part), every=every)
        known = np.isfinite(begins).any()
        adds = known and not any(_at_once(job, begins, one) for one in begun)
        begun += [begins] if adds else []
        own = _of_groups(job, begins)
        together = late + own if adds else np.full(shape, np.nan)
        late = np.where(np.isnan(together), np.fmax(late, own), together)
    in_rings = late_in_rings_ns(context, job)
    late = np.where(np.isfinite(in_rings), in_rings, late)
    at_hops = late_at_hops_ns(context, job)
    most, waits = (np.nan_to_num(one).max(axis=0, initial=0.0) for one in (late, at_hops))
    return np.where((OF_WAIT * waits > most) & np.isfinite(at_hops), at_hops, late)


def _of_groups(job: JobView, begins: Floats) -> Floats:
    """Lateness at the collectives of one class; NaN where fewer than three show who is late."""
    late = np.full(begins.shape[:2], np.nan)
    for one in np.unique(job.phases.dp_group[job.phases.dp_group >= 0]).tolist():
        rows = np.flatnonzero(job.phases.dp_group == one)
        if rows.size >= SMALLEST and begins.shape[2]:
            own = begins[rows]
            late[rows] = _summed(own - nanmedian(own, axis=0)[None])
    return late


def _at_once(job: JobView, one: Floats, other: Floats) -> bool:
    """Whether collectives of two classes begin together: one collective on several connections."""
    if one.shape[2] != other.shape[2]:
        return False
    apart = np.abs(nanmedian(one, axis=0) - nanmedian(other, axis=0))
    return bool(finite_median(apart.ravel()) < SHORT * job.period_ns)


def _summed(away_ns: Floats) -> Floats:
    """Sum over the collectives of a step; those that are known, if they are the most, for all."""
    known = np.isfinite(away_ns).sum(axis=2)
    every = known.max(initial=0)
    scale = np.where(2 * known >= every, every / np.maximum(known, 1), 1.0)
    return np.where(known > 0, np.nansum(away_ns, axis=2) * scale, np.nan)


def _begins(context: Context, job: JobView, bursts: Bursts, *, every: bool) -> Floats:
    """Earliest begin of any hop of each endpoint, by collective, (endpoints, steps, collectives).

    Bursts that begin after as many bytes of a step are of one collective. It is known only where
    all hops of its group have such a burst: records may be merged. A hop that lacks bytes in
    a step may have begun earlier, so nothing is known about its ends, unless they are as early as
    any of their group.
    """
    if not bursts.place.size:
        return np.full((job.phases.endpoints.size, job.count, 0), np.nan)
    number, usual = _collective(bursts.size, bursts.place * job.count + bursts.step)
    begins = np.full((job.phases.endpoints.size, job.count, usual), np.inf)
    group = job.phases.dp_group[
        np.searchsorted(job.phases.endpoints, context.flows.src[bursts.row])
    ]
    lane = (group + 1) * job.count + bursts.step
    use = _on_all_hops(bursts.place, lane, number)
    if not every:
        cell = bursts.place * job.count + bursts.step
        use &= (number == 0) | ~_any(np.bincount(cell)[cell] != usual, lane)
    unknown, lacking = _lack_bytes(job, bursts), np.zeros(begins.shape[:2], np.bool_)
    when = (bursts.start_ns - job.ranks.origin_ns).astype(np.float64)
    for codes in (context.flows.src, context.flows.dst):
        place = np.searchsorted(job.phases.endpoints, codes[bursts.row])
        np.minimum.at(begins, (place[use], bursts.step[use], number[use]), when[use])
        lacking[place[unknown], bursts.step[unknown]] = True
    earlier = lacking[:, :, None] & (begins > _earliest(job, begins) + SHORT * job.period_ns)
    return np.where(np.isinf(begins) | earlier, np.nan, begins)


def _earliest(job: JobView, begins: Floats) -> Floats:
    """The earliest of the begins of each endpoint's group, of the same shape."""
    group = job.phases.dp_group + 1
    earliest = np.full((int(group.max(initial=0)) + 1, *begins.shape[1:]), np.inf)
    np.minimum.at(earliest, group, begins)
    return earliest[group]


def _collective(size: Ints, cell: Ints) -> tuple[Ints, int]:
    """Number of the collective that each burst begins, -1 for none, and how many there are.

    By the share of its step's bytes that is before a burst; equal ones are seen in most cells.
    """
    counts = np.bincount(cell)
    until, total = np.cumsum(size, dtype=np.float64), np.bincount(cell, size)
    before = (until - size - (np.cumsum(total) - total)[cell]) / total[cell]
    order = np.argsort(before, kind="stable")
    apart = SAME / float(np.median(counts[counts > 0]))
    cluster = np.empty(size.size, np.int64)
    cluster[order] = np.cumsum(np.diff(before[order], prepend=0.0) > apart)
    cells = np.bincount(np.unique(cluster * counts.size + cell) // counts.size)
    kept = cells > MOST_CELLS * (counts > 0).sum()
    return np.where(kept, np.cumsum(kept) - 1, -1)[cluster], int(kept.sum())


def _on_all_hops(place: Ints, lane: Ints, number: Ints) -> Bools:
    """Whether all hops of a lane (a group, in a step) have a burst of each burst's collective."""
    seen = pd.DataFrame({"place": place, "lane": lane, "number": number})
    hops = seen.groupby("lane")["place"].transform("nunique")
    found: Bools = (
        seen.groupby(["lane", "number"])["place"].transform("nunique") == hops
    ).to_numpy()
    return found & (number >= 0)


def _any(marked: Bools, lane: Ints) -> Bools:
    """Whether any burst of the lane of each burst is marked."""
    found: Bools = (np.bincount(lane, marked) > 0)[lane]
    return found


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

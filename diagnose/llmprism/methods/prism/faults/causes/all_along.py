"""Parts of the network, and ranks, that are slow in every step: they are compared with their peers.

There is no step without it, so no comparison of steps shows it. But messages through a part of the
network that is slow take much longer than others of the same size over as many hops
(:mod:`~.peers`), and a rank that is slow takes much longer than its replicas, which do the same.
Healthy GPUs and hosts differ too, so only what is far slower is a finding; and what was so all
along explains no change, so it is one only about a job about which nothing else is found.

What a rank costs is what its pipeline takes longer with its passes than with those of its replicas,
or how much later it is at collectives than all others. What a part of the network costs is what the
messages of one endpoint take longer in a step, and how much later exchanges across it end: an
estimate, as other work may hide some of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.faults.causes.slow_parts import by_pace
from llmprism.methods.prism.faults.causes.uneven import pipeline_ns, work_of_endpoints_ns
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.lateness.own_time import lateness_ns
from llmprism.methods.prism.faults.measures.bundles import Bundle
from llmprism.methods.prism.faults.measures.peers import Paced, compared_with_peers
from llmprism.methods.prism.faults.measures.rates import busy_ns, rates_of
from llmprism.methods.prism.faults.passes.passes import Passes, passes_of
from llmprism.methods.prism.faults.suspects.cost import Cost
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.numerics.arrays import Floats, Ints, by_parts
from llmprism.numerics.missing import finite_median, nanmedian, nanquantile

FEW = 0.5  # share of the connections: if more are slow, none is
SPREAD = 0.3  # by which a rank is slower than its replicas: twice what healthy GPUs differ
LATER = 0.15  # of a step, by which it is later at collectives: more than these make it late
WORTH = 0.05  # of a step, that it costs
SURE = 0.8  # of the confidence with which a comparison of steps would show it
REPLICAS = 3  # of a stage that show what is usual
FASTEST = 0.25  # quantile of the lengths of passes
TICKS = 3.0  # of the clock, by which a pass is longer
MOST = 0.95  # of a step: so much of it a slow part may cost


def all_along(context: Context, named: Sequence[Suspect]) -> Iterator[Suspect]:
    """Bring forward what is slow in all steps of jobs that ``named`` says nothing about."""
    for job in context.jobs:
        if not any(one.job is job for one in named) and job.period_ns > 0 and job.count > 1:
            found = _slow_part(context, job) or _slow_rank(context, job)
            if found is not None and found.cost.share > WORTH:
                yield found


def _slow_part(context: Context, job: JobView) -> Suspect | None:
    """The part of the network that all messages cross that are slower than those of their peers."""
    paced = compared_with_peers(context, job)
    if not paced.slow.any() or paced.slow.mean() > FEW:
        return None
    crosses = _crosses(context, job)
    bundles = [
        Bundle("pp", crosses[one], slow, ratio)
        for one, slow, ratio in zip(
            paced.connection.tolist(), paced.slow.tolist(), paced.ratio.tolist(), strict=True
        )
        if np.isfinite(ratio)
    ]
    best, found = by_pace(context, job, bundles, (0, job.count - 1), [], [])
    if found is None or not best:
        return None
    evidence = {key: value for key, value in found.evidence.items() if "pace_ratio" not in key}
    evidence["ratio_to_peers"] = found.evidence["pace_ratio"]
    across = [one for one, parts in crosses.items() if best in parts]
    lost_ns = min(_extra_ns(context, job, paced, across), MOST * job.period_ns)
    return replace(
        found,
        confidence=round(SURE * found.confidence, 4),
        evidence=evidence,
        lost=_cost(job, lost_ns),
        lost_share=lost_ns / job.period_ns,
    )


def _crosses(context: Context, job: JobView) -> dict[int, frozenset[str]]:
    """The parts of the network that each connection of ``job`` crosses."""
    own = np.concatenate([part.one.connections for part in job.phases.classes])
    return dict(zip(own.tolist(), rates_of(context, job).crosses, strict=True))


def _extra_ns(context: Context, job: JobView, paced: Paced, across: Sequence[int]) -> float:
    """What transfers of connections ``across`` the slow part take longer in a step [ns].

    Messages, of the endpoint whose messages lose most; and collectives, which go at their pace.
    """
    own = np.flatnonzero(paced.slow & np.isin(paced.connection, across))
    slower = 1 - 1 / float(np.median(paced.ratio[own]))
    in_exchanges = min(slower * _exchange_ns(context, job, across), _later_ns(context, job, across))
    return float(paced.extra_ns[own].max(initial=0.0)) + in_exchanges


def _exchange_ns(context: Context, job: JobView, across: Sequence[int]) -> float:
    """How long records of collectives last in a step [ns], of the connection with the longest."""
    longest_ns = 0.0
    for part in job.phases.classes:
        own = np.isin(part.one.connections, across)
        if part.kind == "dp" and own.any():
            by_step = np.nan_to_num(busy_ns(context, job, part)[own])
            longest_ns = max(longest_ns, float(np.median(by_step, axis=1).max()))
    return longest_ns


def _later_ns(context: Context, job: JobView, across: Sequence[int]) -> float:
    """How much later groups end a step with a rank at an end of a connection than others do [ns].

    Infinite if there are no others: then nothing shows what they hide behind other work.
    """
    ends = np.unique([side[across] for side in (context.connections.src, context.connections.dst)])
    group = job.phases.dp_group
    slow = np.isin(group, group[np.isin(job.phases.endpoints, ends)])
    ended = job.phases.moments["dp"].end_ns.astype(np.float64)
    ended[ended == MISSING] = np.nan
    if slow.all() or not slow.any():
        return np.inf
    later = np.fmax.reduce(ended[slow]) - np.fmax.reduce(ended[~slow])
    return max(0.0, finite_median(later)) if np.isfinite(later).any() else np.inf


def _slow_rank(context: Context, job: JobView) -> Suspect | None:
    """The server, or the rank, that takes longer than its replicas do."""
    piped = job.pipelines.length > 1
    slower, lost_ns = (_by_passes if piped else _by_lateness)(context, job)
    rows = np.flatnonzero(slower > (SPREAD if piped else LATER))
    servers = context.topology.servers[job.phases.endpoints]
    if not rows.size or np.unique(servers[rows]).size != 1:
        return None
    return _of_rank(context, job, rows, float(slower[rows].max()), float(lost_ns[rows].max()))


def _by_passes(context: Context, job: JobView) -> tuple[Floats, Floats]:
    """By how much passes of each endpoint are longer than its replicas': share, and cost [ns].

    The fastest quarter of them: others may have waited.
    """
    nothing = np.zeros((2, job.phases.endpoints.size))
    passes = passes_of(context, job)
    if passes is None:
        return nothing[0], nothing[1]
    tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    work_ns = by_parts(_fastest_ns, passes.work_ns)
    usual_ns = np.array([_of_replicas(work_ns, passes.stage, row) for row in range(work_ns.size)])
    extra_ns = np.nan_to_num(work_ns - usual_ns)
    slower = np.where(extra_ns > TICKS * tick_ns, extra_ns / usual_ns, 0.0)
    cost_ns = np.zeros(slower.size)
    for row in np.flatnonzero(slower > SPREAD).tolist():
        cost_ns[row] = _of_pipeline_ns(passes, row, float(slower[row]))
    return slower, cost_ns


def _fastest_ns(work_ns: Floats) -> Floats:
    """How long the fastest passes of each endpoint take [ns], (endpoints,)."""
    return nanquantile(work_ns.reshape(len(work_ns), -1), FASTEST)


def _of_pipeline_ns(passes: Passes, row: int, slower: float) -> float:
    """How much longer the passes of a step take if one stage takes longer, as an endpoint does.

    Of a pipeline of two stages, in which no stage shows both passes by itself, all passes of the
    endpoint are added.
    """
    both_ns, forth_ns = (
        np.array(
            [finite_median(work[passes.stage == stage].ravel()) for stage in range(passes.stages)]
        )
        for work in reversed(work_of_endpoints_ns(passes))
    )
    if not np.isfinite(both_ns + forth_ns).all():
        own_ns = np.nansum(passes.work_ns[row], axis=1)
        return slower / (1 + slower) * finite_median(own_ns)
    share = np.where(np.arange(passes.stages) == passes.stage[row], 1 + slower, 1.0)
    usual_ns = pipeline_ns(passes, forth_ns, both_ns)
    return pipeline_ns(passes, forth_ns * share, both_ns * share) - usual_ns


def _of_replicas(work: Floats, stage: Ints, row: int) -> float:
    """The usual work of the other ranks of the stage of ``row``; NaN where too few show it."""
    others = work[(stage == stage[row]) & (np.arange(work.size) != row)]
    others = others[np.isfinite(others)]
    return finite_median(others) if others.size >= REPLICAS - 1 else np.nan


def _by_lateness(context: Context, job: JobView) -> tuple[Floats, Floats]:
    """How much later each endpoint is at collectives than others: share of a step, and cost [ns].

    All wait for the last server, so it costs what it is later than the one before it.
    """
    late_ns = nanmedian(lateness_ns(context, job), axis=1)
    servers = context.topology.servers[job.phases.endpoints]
    lost_ns = np.zeros(late_ns.size)
    if np.isfinite(late_ns).all():
        for row in range(late_ns.size):
            others = late_ns[servers != servers[row]]
            lost_ns[row] = late_ns[row] - others.max(initial=0.0) if others.size else 0.0
    rest_ns = np.maximum(job.period_ns - lost_ns, 1.0)
    return lost_ns / rest_ns, lost_ns


def _of_rank(context: Context, job: JobView, rows: Ints, slower: float, lost_ns: float) -> Suspect:
    names = [context.topology.addresses[end] for end in job.phases.endpoints[rows].tolist()]
    server = context.topology.endpoints[int(job.phases.endpoints[rows[0]])].server
    alone = len(names) == 1
    lost_ns = min(lost_ns, MOST * job.period_ns)
    piped = job.pipelines.length > 1
    return Suspect(
        job, "rank", "slow_passes" if piped else "late_to_collectives", "slow_gpu",
        "address" if alone else "server", names[0] if alone else server,
        0, job.count - 1, slower / (1 + slower), SURE,
        {
            "server": server,
            "one_of": names,
            "or_causes": ["slow_server", "degraded_nvlink"],
            "ratio_to_replicas": round(1 + slower, 4),
        },
        lost=_cost(job, lost_ns),
        lost_share=lost_ns / job.period_ns,
    )  # fmt: skip


def _cost(job: JobView, lost_ns: float) -> Cost:
    """Time lost in each step of a job that is slow in all of them."""
    return Cost(job.period_ns - lost_ns, job.period_ns, lost_ns * job.count, np.inf)

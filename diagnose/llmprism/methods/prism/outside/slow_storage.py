"""Storage that writes or reads slowly, seen at checkpoints.

A job exchanges bulk data with a server that is none of its own, from time to time. Each such
*save* (or load) has a pace: its length over its bytes. Saves that take longer for as many bytes,
while steps with a save get longer and the others do not, are the storage's fault. A save in the
background may be slow without any cost; then there is no finding.

A save of a job has as many bytes as its others. One that seems to have fewer lacks records.

Jobs that save at the same time share the storage, and their saves take longer. So a slow save also
takes longer for all bytes that the server moves meanwhile.

All saves of a job may cross one switch on their way, for example the leaf below which the job lies.
If no other data goes the same way through it, nothing shows whether it is slow instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.explanation import Cost, Explanation
from llmprism.methods.prism.links import ARROW, UP, crossed
from llmprism.methods.prism.parameters import (
    HALF,
    HEALTHY_DEVIATIONS,
    LEAST_COST,
    QUARTER,
    SMALL,
    SURE,
)
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import deviation, finite_median

SAVES, HEALTHY = 4, 2  # saves, and those of them that show what is healthy
SLOWER = 1.2  # times the healthy pace
OR_A_SWITCH = 0.5**0.5  # of the confidence: another explanation is as good


@dataclass(frozen=True)
class Saves:
    """Bulk transfers between a job and one server, in order of time.

    Attributes
    ----------
    step : of each.
    extra_ns : by which each makes the steps longer that it touches; NaN where that is unknown.
    usual_ns, noise_ns : a step without a save, and its deviation.
    pace : length over the usual bytes of one.
    shared_pace : length over these and the bytes that the server exchanges with others meanwhile.
    between : switches that all of them cross, and no other data in the same direction.
    """

    server: str
    step: Ints
    extra_ns: Floats
    usual_ns: float
    noise_ns: float
    pace: Floats
    shared_pace: Floats
    between: tuple[str, ...] = ()


def slow_storage(context: Context) -> Iterator[Explanation]:
    """Yield servers outside a job with which it exchanges bulk data slowly."""
    for job in context.jobs:
        for saves in saves_of(context, job):
            slow = _slow(saves.pace) & _slow(saves.shared_pace)
            together = np.flatnonzero(slow)
            if together.size < HEALTHY or np.ptp(together) + 1 > together.size:
                continue  # now and then one is slow
            cost = _cost_of(saves, slow)
            if (
                (~slow).sum() >= HEALTHY
                and cost.share > LEAST_COST
                and cost.deviations > HEALTHY_DEVIATIONS
            ):
                yield _explanation(job, saves, slow, cost)


def _cost_of(saves: Saves, slow: Bools) -> Cost:
    """What slow saves add to their steps beyond what healthy ones do."""
    more_ns = saves.extra_ns[slow] - finite_median(saves.extra_ns[~slow])
    more_ns = more_ns[np.isfinite(more_ns)]
    if not more_ns.size:
        return Cost(saves.usual_ns, saves.usual_ns, 0.0, 0.0)
    steps = int(np.ptp(saves.step[slow])) + 1
    lost_ns, noise_ns = float(more_ns.sum()), max(saves.noise_ns, 1.0)
    deviations = float(more_ns.mean()) / noise_ns * np.sqrt(more_ns.size)
    return Cost(saves.usual_ns, saves.usual_ns + lost_ns / steps, lost_ns, deviations)


def _slow(pace: Floats) -> Bools:
    """Which saves are slower than healthy ones."""
    slow: Bools = pace > SLOWER * _healthy(pace)
    return slow


def _healthy(pace: Floats) -> float:
    """The pace of healthy saves; all others may be slow."""
    return float(np.sort(pace)[HEALTHY - 1])


def saves_of(context: Context, job: JobView) -> Iterator[Saves]:
    """Saves of ``job``, by server."""
    connections, servers = context.connections, context.topology.servers
    inside = np.zeros(len(servers), np.bool_)
    inside[job.phases.endpoints] = True
    own = connections.carries & (inside[connections.src] != inside[connections.dst])
    employed = set(servers[inside].tolist())
    other = np.where(inside[connections.src], connections.dst, connections.src)
    for server in sorted(set(servers[other[own]].tolist()) - employed):
        chosen = np.flatnonzero(own & (servers[other] == server))
        others = _others(context, job, server)
        rows_of = (
            np.concatenate([np.arange(0), *(connections.by.rows(c) for c in some.tolist())])
            for some in (chosen, others)
        )
        saves = _saves(context, job, *rows_of)
        if saves is not None:
            name = context.topology.endpoints[int(other[chosen[0]])].server
            yield Saves(name, *saves, _between(context, chosen, others))


def _between(context: Context, chosen: Ints, others: Ints) -> tuple[str, ...]:
    """Switches that all of the ``chosen`` connections cross one way, and no other data does.

    Without those at the storage: all that they send to it goes to its NICs. ``others`` are the
    connections of other jobs with the server.
    """
    connections = context.connections
    every = [_ways(context, one) for one in chosen.tolist()]
    common = frozenset.intersection(*every) if every else frozenset()
    rest = np.setdiff1d(np.flatnonzero(connections.carries), chosen)
    for one in np.union1d(rest, others).tolist():
        if common:
            common -= _ways(context, one)
    return tuple(sorted({part.split(ARROW)[0] for part in common}))


def _ways(context: Context, connection: int) -> frozenset[str]:
    """Switches that a connection crosses upwards, with the direction."""
    return frozenset(part for part in crossed(context, connection) if part.endswith(UP))


def _others(context: Context, job: JobView, server: int) -> Ints:
    """Connections that ``server`` has with others than the servers of ``job``."""
    connections, servers = context.connections, context.topology.servers
    ends = np.stack([servers[connections.src], servers[connections.dst]])
    own = np.isin(ends, servers[job.phases.endpoints])
    return np.flatnonzero((ends == server).any(axis=0) & ~own.any(axis=0))


def _saves(
    context: Context, job: JobView, rows: Ints, others: Ints
) -> tuple[Ints, Floats, float, float, Floats, Floats] | None:
    """What ``Saves`` says of those that ``rows`` hold, while ``others`` share the server."""
    flows = context.flows
    rows = rows[np.argsort(flows.start_ns[rows], kind="stable")]
    start, end = flows.start_ns[rows], np.maximum.accumulate(flows.end_ns[rows])
    opens = np.flatnonzero(np.concatenate(([True], start[1:] - end[:-1] > HALF * job.period_ns)))
    size = np.add.reduceat(flows.bytes[rows], opens).astype(np.float64)
    last = np.append(opens[1:], rows.size) - 1
    bulk = size >= QUARTER * size.max()
    if bulk.sum() < SAVES:
        return None
    begin, length = start[opens][bulk], (end[last] - start[opens])[bulk]
    usual = float(np.median(size[bulk]))
    if np.median(np.abs(size[bulk] / usual - 1)) > SMALL:
        return None
    shared = usual + _bytes_within(context, others, begin, begin + length)
    step = np.minimum(np.searchsorted(job.end_ns, begin + length // 2), job.count - 1)
    return step, *_extra(job, begin, begin + length), length / usual, length / shared


def _extra(job: JobView, begin_ns: Ints, end_ns: Ints) -> tuple[Floats, float, float]:
    """By how much saves make the steps longer that they touch; other steps, and their deviation."""
    first, last = (
        np.minimum(np.searchsorted(job.end_ns, at), job.count - 1) for at in (begin_ns, end_ns)
    )
    touched = np.zeros(job.count, np.bool_)
    spans = [slice(a, b + 1) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    for span in spans:
        touched[span] = True
    others = job.between_ends_ns[~touched]
    usual_ns = finite_median(others)
    extra_ns = np.array([np.sum(job.between_ends_ns[span] - usual_ns) for span in spans])
    return extra_ns, usual_ns, deviation(others[np.isfinite(others)])


def _bytes_within(context: Context, rows: Ints, begin_ns: Ints, end_ns: Ints) -> Floats:
    """Bytes of ``rows`` between each of some moments and the next one, sent evenly."""
    start_ns, lasts_ns = context.flows.start_ns[rows], context.flows.lengths_ns(rows)
    rate = context.flows.bytes[rows] / np.maximum(lasts_ns, 1)
    found = []
    for begin, end in zip(begin_ns.tolist(), end_ns.tolist(), strict=True):
        inside_ns = np.minimum(start_ns + lasts_ns, end) - np.maximum(start_ns, begin)
        found.append(float((rate * np.maximum(inside_ns, 0)).sum()))
    return np.array(found)


def _explanation(job: JobView, saves: Saves, slow: Bools, cost: Cost) -> Explanation:
    step, ratio = saves.step[slow], float(np.median(saves.pace[slow])) / _healthy(saves.pace)
    doubts = {"one_of": [saves.server, *saves.between]} if saves.between else {}
    causes = ["misconfigured_switch", "slow_switch"] if saves.between else []
    return Explanation(
        job, "network", "slow_saves", "slow_storage", "server", saves.server,
        int(step[0]), int(step[-1]), 1 - 1 / ratio, SURE * (OR_A_SWITCH if saves.between else 1.0),
        {
            "saves": int(saves.step.size),
            "slow_saves": int(slow.sum()),
            "pace_ratio": round(ratio, 3),
            "or_causes": [*causes, "slow_nic"],
            **doubts,
        },
        cost,
    )  # fmt: skip

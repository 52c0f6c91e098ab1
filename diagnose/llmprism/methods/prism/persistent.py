"""Persistent deviations: units that are slower than their peers in every step.

A fault that is older than the recording changes no step against another. It shows beside *peers*:
the units of one stage do the same work, and so do communicators of one kind over as many switches.
How long a unit works in a normal step is known by its edges in the graph, without what all of an
operation wait for. Its own work, by the order of its events, has to differ from that of its peers
as well: it is longer, or seems shorter, since who is behind gets what it needs while it works.
Healthy GPUs of one type differ too, so a slow one has to differ by more than they do. What has
fewer than three peers is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.context import Context
from llmprism.methods.prism.culprits.base import Attribution
from llmprism.methods.prism.culprits.bottlenecks import bottlenecks
from llmprism.methods.prism.culprits.network import Seen, name_part
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.explanation import Cost
from llmprism.methods.prism.normal import Table
from llmprism.methods.prism.parameters import (
    ALWAYS_SHARE,
    ALWAYS_SURE,
    FEWEST,
    HALF,
    LEAST_COST,
    UNEQUAL,
    UNEQUAL_LINKS,
)
from llmprism.methods.prism.windows import log_density, penalty_always
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.edges import Usual
from llmprism.numerics.missing import TO_SIGMA, group_medians, nanmedian


@dataclass(frozen=True)
class Persistent:
    """Something that is slow in every step.

    Attributes
    ----------
    level : by how much it takes longer than its peers, as a share.
    cost : what that costs the job at most.
    confidence : in [0, 1].
    """

    attribution: Attribution
    level: float
    cost: Cost
    confidence: float


def persistent(durations: Durations) -> Iterator[Persistent]:
    """All that is slower than its peers in every step."""
    if durations.steps >= FEWEST:
        yield from _slow_units(durations)
        yield from _slow_parts(durations)


def _slow_units(durations: Durations) -> Iterator[Persistent]:
    """A unit, or a server of which all units are slow. Several at once have another role."""
    level, longer_ns = _beside_peers(durations)
    slow = np.nan_to_num(level) > ALWAYS_SHARE
    groups = list(_groups(durations, slow))
    of_median = durations.compute.error / np.sqrt(max(int(durations.normal.healthy.sum()), 1))
    error = np.hypot(_scatter(level, UNEQUAL), of_median)
    for units, kind in groups if len(groups) == 1 else []:
        odds = -float(log_density(level[units] / error[units]).sum() / np.sqrt(units.size))
        odds -= penalty_always(int(np.isfinite(level).sum()), durations.steps)
        named = _named(durations, units, kind)
        lost_ns = float(longer_ns[units].min())
        yield from _judged(durations, named, float(level[units].min()), lost_ns, odds)


def _judged(
    durations: Durations, named: Attribution, level: float, lost_ns: float, odds: float
) -> Iterator[Persistent]:
    """The finding, if it is no chance and costs the job enough; ``lost_ns`` in each step."""
    usual_ns = durations.usual_ns
    if odds > 0 and lost_ns > LEAST_COST * usual_ns:
        cost = Cost(max(usual_ns - lost_ns, 1.0), usual_ns, lost_ns * durations.steps, odds)
        sure = float(ALWAYS_SURE * (1 - np.exp(-odds)) * named.sure)
        yield Persistent(named, level, cost, sure)


def _beside_peers(durations: Durations) -> tuple[Floats, Floats]:
    """By how much each unit takes longer than its peers, as a share and in ns."""
    healthy = durations.normal.healthy
    work = nanmedian(np.where(healthy, durations.work_ns, np.nan), axis=1)
    normal_ns = _without_waiting(durations).normal_ns
    edges = np.where(normal_ns > 0, normal_ns, np.nan)
    role = _roles(durations)
    ratio = [beside_peers(one, role) for one in (edges, work)]
    alike = (ratio[1] <= 1) & (ratio[1] > 1 - 2 * _scatter(ratio[1] - 1, UNEQUAL))
    level: Floats = np.where(alike, np.fmin(ratio[0] - 1, 0.0), ratio[0] - 1)
    longer: Floats = edges - _of_peers(edges, role)
    return level, longer


def _without_waiting(durations: Durations) -> Table:
    """Computations without waiting for what is slow in every step.

    Who waits in every step takes longer than others of the same operation, not than itself.
    """
    graph = durations.measured
    usual = durations.reference.usual(graph.compute)
    of_kinds = [group_medians(one, graph.nodes.operation) for one in usual.median.T]
    return durations.compute_beside(Usual(np.column_stack(of_kinds), usual.kind))


def _slow_parts(durations: Durations) -> Iterator[Persistent]:
    """The part of the network that explains communicators that are slower than their peers."""
    table, communicators = durations.transfer, durations.graph.nodes.communicators
    size = np.array([one.size_bytes for one in communicators])
    pace = np.where(table.normal_ns > 0, table.normal_ns / np.maximum(size, 1.0), np.nan)
    role = _roles_of_transfers(durations)
    level = beside_peers(pace, role) - 1
    error = np.zeros(level.size)
    for one in np.unique(role).tolist():
        error[role == one] = _scatter(level[role == one], UNEQUAL_LINKS)
    slow = np.nan_to_num(level) > np.maximum(3 * error, 2 * ALWAYS_SHARE)
    if not slow.any() or 2 * slow.sum() > np.isfinite(level).sum():
        return
    every = np.ones(durations.steps, np.bool_)
    seen = {
        number: Seen(True, bottlenecks(durations, communicators[number].connections, every))
        if slow[number]
        else Seen(False, None)
        for number in np.flatnonzero(np.isfinite(level)).tolist()
    }
    named = name_part(durations, [seen])
    if named is None:
        return
    share = 1 - 1 / (1 + np.where(slow, level, 0.0))
    lost_ns = float((durations.on_path.transfer.sum(axis=1) * share).sum()) / durations.steps
    odds = -float(log_density(level[slow] / error[slow]).sum())
    odds -= penalty_always(len(communicators), durations.steps)
    if lost_ns >= HALF * float((table.normal_ns * share).max()):  # else others wait for it
        yield from _judged(durations, named, float(np.median(level[slow])), lost_ns, odds)


def _roles_of_transfers(durations: Durations) -> Ints:
    """A number for each kind of traffic, stage that sends, and count of switches on the way."""
    context, job = durations.context, durations.job
    stage = np.full(len(context.flows.addresses), -1)
    stage[job.phases.endpoints] = job.pipelines.stage
    numbers: dict[tuple[str, int, int], int] = {}
    roles = []
    for one in durations.graph.nodes.communicators:
        own = int(stage[context.connections.src[one.connections]].max())
        role = (one.kind, own, _switches(context, one.connections))
        roles.append(numbers.setdefault(role, len(numbers)))
    return np.array(roles, np.int64)


def _switches(context: Context, connections: Ints) -> int:
    """Most switches that a connection crosses; 0 where paths are unknown."""
    rows = context.connections.by.order[context.connections.by.offsets[connections]]
    codes = context.flows.path[rows]
    return max((context.flows.paths[code].count("|") + 1 for code in codes if code >= 0), default=0)


def _roles(durations: Durations) -> Ints:
    """A number for the units of one stage that take part in as many operations."""
    stage = durations.job.pipelines.stage
    parts = np.bincount(durations.graph.nodes.rank, minlength=stage.size)
    roles: Ints = np.unique(np.stack((stage, parts)), axis=1, return_inverse=True)[1].ravel()
    return roles


def beside_peers(values: Floats, role: Ints) -> Floats:
    """Each value over the median of those with its role; NaN with fewer than ``FEWEST`` others.

    >>> beside_peers(np.array([1.0, 2.0, 1.0, 1.0]), np.zeros(4, np.int64))
    array([1., 2., 1., 1.])
    """
    ratio: Floats = values / _of_peers(values, role)
    return ratio


def _of_peers(values: Floats, role: Ints) -> Floats:
    """The median of those with the role of each; NaN with fewer than ``FEWEST`` others."""
    usual = np.full(values.size, np.nan)
    for one in np.unique(role).tolist():
        own = (role == one) & np.isfinite(values) & (values > 0)
        if own.sum() > FEWEST:
            usual[own] = np.median(values[own])
    return usual


def _scatter(level: Floats, least: float) -> float:
    """By how much healthy peers differ: what most do, but no less than nearly all do usually."""
    known = np.abs(level[np.isfinite(level)])
    return max(float(np.median(known)) * TO_SIGMA if known.size else 0.0, least / 3)


def _groups(durations: Durations, slow: Bools) -> Iterator[tuple[Ints, str]]:
    """Slow units of each server, and whether these are all of it.

    Those of one tensor group wait for each other.
    """
    known = durations.compute.normal_ns > 0
    for server in np.unique(durations.servers[slow]).tolist():
        units = np.flatnonzero((durations.servers == server) & known)
        whole = units.size > 1 and slow[units].all()
        yield units[slow[units]], "server" if whole else "address"


def _named(durations: Durations, units: Ints, kind: str) -> Attribution:
    server = durations.server_name(int(durations.servers[units[0]]))
    if kind == "server":
        others = {"or_causes": ["slow_gpu", "degraded_nvlink"]}
        return Attribution("rank", "slow_passes", "slow_server", kind, server, others)
    names = [durations.address(unit) for unit in units.tolist()]
    evidence = {
        "server": server, "or_causes": ["slow_server", "degraded_nvlink"],
        **({"one_of": names} if len(names) > 1 else {}),
    }  # fmt: skip
    return Attribution("rank", "slow_passes", "slow_gpu", "address", names[0], evidence)

"""Persistent deviations: units and transfers that are slower than they could be in every step.

A fault that is older than the recording changes no step against another. It shows beside *peers*:
the units of one stage do the same work, and so do communicators of one kind over as many switches.
How long a unit works in a normal step is known by its edges in the graph, without what all of an
operation wait for. Its own work, by the order of its events, has to differ from that of its peers
as well: it is longer, or seems shorter, since who is behind gets what it needs while it works.
Healthy GPUs of one type differ too, so a slow one has to differ by more than they do. What has
fewer than three peers is not judged. Hops of a ring are peers: some rest, and show what links do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.context import Context
from llmprism.methods.prism.culprits.base import SLOW, Attribution
from llmprism.methods.prism.culprits.network import Seen, bottlenecks, name_part, unnamed
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.explanation import Cost
from llmprism.methods.prism.link_use import link_use_of
from llmprism.methods.prism.normal import Table
from llmprism.methods.prism.parameters import (
    ALWAYS_SHARE,
    ALWAYS_SURE,
    FEWEST,
    HALF,
    LEAST_COST,
    LEAST_SURE,
    MOST_NAMED,
    MOSTLY,
    NEARLY,
    NOISE_FLOOR,
    UNEQUAL,
    UNEQUAL_LINKS,
)
from llmprism.methods.prism.windows import log_density, penalty_always
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.edges import Usual
from llmprism.numerics.missing import TO_SIGMA, group_medians, nanmedian

Limits = dict[int, Mapping[int, float] | None]
"""Chance that each hop of some communicators limits the others; None if records do not show it."""


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
    """Few units that are slower than their peers, by as much: others have another role."""
    level, longer_ns = _beside_peers(durations)
    slow = np.nan_to_num(level) > ALWAYS_SHARE
    if not slow.any() or 2 * slow.sum() > np.isfinite(level).sum():
        return
    units = np.flatnonzero(slow & (longer_ns >= NEARLY * longer_ns[slow].max()))
    work_ns, stage = durations.compute.normal_ns, durations.job.pipelines.stage
    beside = np.isin(stage, stage[units]) & ~np.isfinite(level)
    longest = work_ns[beside].max(initial=0.0) <= work_ns[units].max()
    if not longest or not np.isin(durations.servers[slow], durations.servers[units]).all():
        return
    of_median = durations.compute.error / np.sqrt(max(int(durations.normal.healthy.sum()), 1))
    error = np.hypot(_scatter(level, UNEQUAL), of_median)
    odds = -float(log_density(level[units] / error[units]).sum() / np.sqrt(units.size))
    odds -= penalty_always(int(np.isfinite(level).sum()), durations.steps)
    lost_ns = float(longer_ns[units].min())
    yield from _judged(
        durations, _named(durations, units), float(level[units].min()), lost_ns, odds
    )


def _judged(
    durations: Durations, named: Attribution, level: float, lost_ns: float, odds: float
) -> Iterator[Persistent]:
    """The finding, if it is no chance and costs the job enough; ``lost_ns`` in each step."""
    usual_ns = durations.usual_ns
    if odds > 0 and lost_ns > LEAST_COST * usual_ns:
        cost = Cost(max(usual_ns - lost_ns, 1.0), usual_ns, lost_ns * durations.steps, odds)
        sure = float(ALWAYS_SURE * (1 - np.exp(-odds)))
        if named.sure < LEAST_SURE:
            named = unnamed(named, durations.job)
        yield Persistent(named, level, cost, sure * named.sure)


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
    """The part of the network that explains communicators that are slower than they could be."""
    table, communicators = durations.transfer, durations.graph.nodes.communicators
    slow, level, error, limits = _slower(durations)
    every = np.ones(durations.steps, np.bool_)
    for number in np.flatnonzero(slow).tolist():
        if number not in limits:
            limits[number] = bottlenecks(durations, communicators[number].connections, every)
    judged = np.flatnonzero((table.normal_ns > 0) & (slow | np.isfinite(level))).tolist()
    seen = {number: Seen(bool(slow[number]), limits.get(number)) for number in judged}
    named = name_part(durations, [seen]) if slow.any() else None
    if named is None:
        return
    share = 1 - 1 / (1 + np.where(slow, level, 0.0))
    lost_ns = float((durations.on_path.transfer.sum(axis=1) * share).sum()) / durations.steps
    odds = -float(log_density(level[slow] / error[slow]).sum())
    odds -= penalty_always(len(communicators), durations.steps)
    if lost_ns >= HALF * float((table.normal_ns * share).max()):  # else others wait for it
        yield from _judged(durations, named, float(np.median(level[slow])), lost_ns, odds)


def _slower(durations: Durations) -> tuple[Bools, Floats, Floats, Limits]:
    """Communicators that are slower than they could be: which, by which share, and its error.

    Than most of their peers, or than the hops of the same ring that rest allow. Of the latter, the
    chance that each hop limits the others.
    """
    normal_ns, communicators = durations.transfer.normal_ns, durations.graph.nodes.communicators
    size = np.array([one.size_bytes for one in communicators])
    pace = np.where(normal_ns > 0, normal_ns / np.maximum(size, 1.0), np.nan)
    level, error = np.full((2, size.size), np.nan)
    for role in _roles_of_transfers(durations):  # the nearest peers, where there are enough
        beside, new = beside_peers(pace, role) - 1, np.isnan(level)
        level = np.where(new, beside, level)
        for one in np.unique(role[new]).tolist():
            error[new & (role == one)] = _scatter(beside[role == one], UNEQUAL_LINKS)
    slow = np.nan_to_num(level) > np.maximum(3 * error, 2 * ALWAYS_SHARE)
    slow &= 2 * slow.sum() <= np.isfinite(level).sum()
    limits: Limits = {}
    for number, (behind, chances) in _behind_hops(durations):
        if behind > 2 * ALWAYS_SHARE and not slow[number]:
            slow[number], level[number], error[number] = True, behind, UNEQUAL / 3
            limits[number] = chances
    return slow, level, error, limits


def _behind_hops(durations: Durations) -> Iterator[tuple[int, tuple[float, dict[int, float]]]]:
    """Rings of which some hops limit the others: the share by which these send longer."""
    if not durations.job.phases.classes:
        return  # libraries that report their collectives show no hops
    use = link_use_of(durations.context, durations.job)
    for number, one in enumerate(durations.graph.nodes.communicators):
        rows = durations.traffic.place[one.connections]
        each = np.minimum(use.peak[rows], 1.0), use.at_peak_ns[rows]
        peak, needed_ns = (nanmedian(measure, axis=1) for measure in each)
        slow, ratio = _limiting(peak, needed_ns)
        longest_ns = needed_ns[slow].max(initial=0.0)
        whole_ns = durations.transfer.normal_ns[number]
        if MOSTLY * whole_ns <= longest_ns <= whole_ns / NEARLY:
            yield number, (ratio - 1, dict(zip(one.connections.tolist(), slow * 1.0, strict=True)))


def _limiting(peak: Floats, needed_ns: Floats) -> tuple[Bools, float]:
    """Which hops of a ring limit the others, and by which factor they send longer than they could.

    All hops move the same bytes, and one that never rests limits the others. It is slow if its
    links are less used than those of others, which send as fast as these allow and rest. Where
    records hide all rests, hops seem to send at one pace, but for the last round: nobody waits
    after it, so who limits the others sends longest. It is slow if that pace is half of what links
    carry. ``peak`` is the use of links, ``needed_ns`` the time that all bytes take with it.
    """
    full, usual_ns = float(peak.max(initial=0.0)), max(float(np.median(needed_ns)), 1.0)
    slow = peak < NEARLY * full
    if slow.any():
        limit = int(np.argmax(np.where(slow, needed_ns, 0.0)))
        ratio = min(needed_ns[limit] / needed_ns[~slow].max(), full / peak[limit])
        return slow & (ratio > 1 / NEARLY), float(ratio)
    later = needed_ns / usual_ns - 1
    last = (later > 3 * _scatter(later, 3 * NOISE_FLOOR)) & (full < HALF)
    return last, 1 / full if full > 0 else 1.0


def _roles_of_transfers(durations: Durations) -> tuple[Ints, Ints]:
    """A number for each kind of traffic, stage that sends, and count of switches on the way.

    And one for the same of all stages.
    """
    context, job = durations.context, durations.job
    stage = np.full(len(context.flows.addresses), -1)
    stage[job.phases.endpoints] = job.pipelines.stage
    communicators = durations.graph.nodes.communicators
    kind = np.unique([one.kind for one in communicators], return_inverse=True)[1].ravel()
    switches = [_switches(context, one.connections) for one in communicators]
    sender = [stage[context.connections.src[one.connections]].max() for one in communicators]
    roles = np.stack((kind, switches, sender))
    of_stage, of_all = (
        np.unique(one, axis=1, return_inverse=True)[1].ravel() for one in (roles, roles[:2])
    )
    return of_stage, of_all


def _switches(context: Context, connections: Ints) -> int:
    """Most switches that a connection crosses; 0 where paths are unknown."""
    rows = context.connections.by.order[context.connections.by.offsets[connections]]
    codes = context.flows.path[rows]
    return max((context.flows.paths[code].count("|") + 1 for code in codes if code >= 0), default=0)


def _roles(durations: Durations) -> Ints:
    """A number for units that do the same: of one stage, or of one ring where there is none.

    And in as many operations.
    """
    nodes, stage = durations.graph.nodes, durations.job.pipelines.stage
    ring = np.zeros(stage.size, np.int64)
    ring[nodes.rank] = nodes.communicator[nodes.operation]
    place = np.where(stage >= 0, stage, -1 - ring)
    parts = np.bincount(nodes.rank, minlength=stage.size)
    roles: Ints = np.unique(np.stack((place, parts)), axis=1, return_inverse=True)[1].ravel()
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


def _named(durations: Durations, units: Ints) -> Attribution:
    """A unit, or a server of which all units are slow, and those that wait for each other."""
    ends = [durations.context.topology.endpoints[code] for code in durations.job.phases.endpoints]
    server = np.array([end.server for end in ends])
    known, names = durations.compute.normal_ns > 0, dict[str, str]()
    for one in dict.fromkeys(server[units].tolist()):
        own = np.flatnonzero((server == one) & known)
        whole = own.size > 1 and np.isin(own, units).all()
        here = [one] if whole else [ends[unit].address for unit in units if server[unit] == one]
        names |= dict.fromkeys(here, "server" if whole else "address")
    name, kind = next(iter(names.items()))
    cause = "slow_server" if kind == "server" else "slow_gpu"
    evidence = {
        "or_causes": [other for other in SLOW if other != cause], "server": server[units[0]],
        **({"one_of": [*names][:MOST_NAMED]} if len(names) > 1 else {}),
    }  # fmt: skip
    sure = 1 / np.unique(server[units]).size
    return Attribution("rank", "slow_passes", cause, kind, name, evidence, sure)

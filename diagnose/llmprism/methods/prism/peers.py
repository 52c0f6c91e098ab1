"""What is slow in every step: ranks and communicators beside those that do the same.

A fault that lasts for the whole recording changes no step against another. It shows in the *edge*
term of the model against its *role*: the ranks of one stage do the same, and those of all stages
between the first and the last one, if they send as many messages. So do communicators of one kind
over as many switches. One value for each says how much slower it is than the median of its peers.
Healthy ones differ too, by a few hundredths. What has fewer than three peers is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.groups.base import Named
from llmprism.methods.prism.groups.bottlenecks import bottlenecks
from llmprism.methods.prism.groups.network import Seen, name_part
from llmprism.methods.prism.parameters import (
    ALWAYS_SHARE,
    FEWEST,
    OWN_SHARE,
    UNEQUAL,
    UNEQUAL_LINKS,
)
from llmprism.methods.prism.windows import Window, log_density, penalty_always
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import TO_SIGMA, group_medians

ALWAYS = "always"


@dataclass(frozen=True)
class Standing:
    """Something that is slow in every step.

    Attributes
    ----------
    named : its culprit; ``window`` : all steps, with its level beside its peers.
    own_ns : what it loses on the critical path in the whole recording.
    odds : log odds that healthy ones do not differ as much.
    """

    named: Named
    window: Window
    own_ns: float
    odds: float


def standing(durations: Durations) -> Iterator[Standing]:
    """All that is slow in every step, beside its peers."""
    yield from _slow_ranks(durations)
    yield from _slow_parts(durations)


def _slow_ranks(durations: Durations) -> Iterator[Standing]:
    stage, last = durations.job.pipelines.stage, durations.job.pipelines.length - 1
    nodes = np.bincount(durations.graph.nodes.rank, minlength=stage.size)
    role = np.where((stage > 0) & (stage < last), last + nodes, stage)
    every = np.ones(role.size, np.bool_)
    if not (beside_peers(durations.compute.normal_ns, role, every) > 1 + ALWAYS_SHARE).any():
        return
    beside = _waiting_beside_peers(durations)
    normal = beside.compute.normal_ns
    ratio = beside_peers(normal, role, every)
    deviations = (ratio - 1) / _errors(ratio, role, UNEQUAL)
    for ranks, kind in _slow_groups(beside, ratio > 1 + ALWAYS_SHARE):
        longer = 1 - 1 / ratio[ranks]
        lost = beside.on_path.compute[ranks].sum(axis=1) @ longer
        if lost < OWN_SHARE * (normal[ranks] * longer).min() * durations.steps:
            continue  # others wait for what is slow
        odds = -float(log_density(deviations[ranks]).sum())
        odds -= penalty_always(normal.size, durations.steps)
        named = _named(durations, int(ranks[0]), kind)
        yield Standing(named, _window(durations, float(ratio[ranks].min() - 1)), float(lost), odds)


def _waiting_beside_peers(durations: Durations) -> Durations:
    """The same without waiting for what is slow in every step.

    Who waits in every step takes longer than others of the same operation, not than itself.
    """
    graph = durations.measured
    normal = durations.reference.normal(graph.compute)
    _, shown, kind = np.unique(durations.reference.kind, return_index=True, return_inverse=True)
    of_kinds = [group_medians(normal[:, step], graph.nodes.operation) for step in shown.tolist()]
    return durations.with_normal(np.column_stack(of_kinds)[:, kind])


def _slow_groups(durations: Durations, slow: Bools) -> Iterator[tuple[Ints, str]]:
    """Servers of which all ranks are slow, and slow ranks of the others."""
    known = durations.compute.normal_ns > 0
    for server in np.unique(durations.servers[slow]).tolist():
        ranks = np.flatnonzero((durations.servers == server) & known)
        if ranks.size > 1 and slow[ranks].all():
            yield ranks, "server"
        else:
            yield from ((ranks[[at]], "address") for at in np.flatnonzero(slow[ranks]).tolist())


def _named(durations: Durations, rank: int, kind: str) -> Named:
    server = durations.server_name(int(durations.servers[rank]))
    if kind == "server":
        others = {"or_causes": ["slow_gpu", "degraded_nvlink"]}
        return Named("rank", "slow_passes", "slow_server", kind, server, others)
    evidence = {"server": server, "or_causes": ["slow_server", "degraded_nvlink"]}
    return Named("rank", "slow_passes", "slow_gpu", kind, durations.address(rank), evidence)


def _slow_parts(durations: Durations) -> Iterator[Standing]:
    table, communicators = durations.transfer, durations.graph.nodes.communicators
    role = _roles(durations)
    size = np.array([one.size_bytes for one in communicators])
    pace = table.normal_ns / np.maximum(size, 1.0)
    ratio = beside_peers(pace, role, table.normal_ns > 0)
    errors = _errors(ratio, role, UNEQUAL_LINKS)
    level = ratio - 1
    slow = np.nan_to_num(level) > np.maximum(3 * errors, 2 * ALWAYS_SHARE)
    if not slow.any() or 2 * slow.sum() > np.isfinite(ratio).sum():
        return
    every = np.ones(durations.steps, np.bool_)
    seen = {
        number: Seen(True, bottlenecks(durations, communicators[number].connections, every))
        if slow[number]
        else Seen(False, None)
        for number in np.flatnonzero(np.isfinite(ratio)).tolist()
    }
    named = name_part(durations, [seen])
    if named is None:
        return
    longer = 1 - 1 / np.where(slow, ratio, 1.0)
    lost = (durations.on_path.transfer.sum(axis=1) * longer).sum()
    if lost < OWN_SHARE * float((table.normal_ns * longer).max()) * durations.steps:
        return  # others wait for what is slow
    odds = sum(-float(log_density(level[[one]] / errors[one])[0]) for one in np.flatnonzero(slow))
    odds -= penalty_always(len(communicators), durations.steps)
    yield Standing(named, _window(durations, float(np.median(level[slow]))), float(lost), odds)


def _roles(durations: Durations) -> Ints:
    """A number for each kind of traffic, stage that sends, and count of switches on the way."""
    stage, senders = stage_of(durations), durations.context.connections.src
    numbers: dict[tuple[str, int, int], int] = {}
    roles = []
    for one in durations.graph.nodes.communicators:
        own = int(stage[senders[one.connections]].max())
        roles.append((one.kind, own, _switches(durations, one.connections)))
    return np.array([numbers.setdefault(role, len(numbers)) for role in roles])


def stage_of(durations: Durations) -> Ints:
    """Stage of each address; -1 for those that are none of the job's."""
    job = durations.job
    stage = np.full(len(durations.context.flows.addresses), -1)
    stage[job.phases.endpoints] = job.pipelines.stage
    return stage


def _switches(durations: Durations, connections: Ints) -> int:
    """Most switches that a connection crosses, up to nine; 0 where paths are unknown."""
    context = durations.context
    rows = context.connections.by.order[context.connections.by.offsets[connections]]
    codes = context.flows.path[rows]
    return max(
        (min(context.flows.paths[code].count("|") + 1, 9) for code in codes if code >= 0), default=0
    )


def beside_peers(values: Floats, role: Ints, judged: Bools) -> Floats:
    """Each value over the median of those with its role; NaN with fewer than ``FEWEST`` others.

    >>> beside_peers(np.array([1.0, 2.0, 1.0, 1.0]), np.zeros(4, np.int64), np.ones(4, bool))
    array([1., 2., 1., 1.])
    """
    ratio = np.full(values.size, np.nan)
    for one in np.unique(role).tolist():
        own = (role == one) & judged & (values > 0)
        if own.sum() > FEWEST:
            ratio[own] = values[own] / np.median(values[own])
    return ratio


def _errors(ratio: Floats, role: Ints, least: float) -> Floats:
    """By how much healthy peers differ: what most of them do, but no less than is usual.

    ``least`` is what nearly all differ by at most: three standard deviations.
    """
    errors = np.full(ratio.size, np.inf)
    for one in np.unique(role).tolist():
        own = (role == one) & np.isfinite(ratio)
        if own.any():
            errors[own] = max(float(np.median(np.abs(ratio[own] - 1))) * TO_SIGMA, least / 3)
    return errors


def _window(durations: Durations, level: float) -> Window:
    return Window(0, durations.steps - 1, level, 0.0, ALWAYS)

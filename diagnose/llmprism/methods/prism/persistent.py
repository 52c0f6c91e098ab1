"""What is slower than its peers, or than its links, in every step.

A fault that is older than the recording changes no step against another. *Peers* show it: the units
of one stage do the same work, and being last of them in nearly all steps is no chance. Healthy GPUs
of one type differ too, so a slow one has to be behind by more than they are. And transfers show it
by the *use* of their links (:mod:`.link_use`). Units that wait for a slow link are late as well,
and a late unit makes no link slow. So links are judged first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.culprits.base import SLOW, Attribution
from llmprism.methods.prism.culprits.network import Seen, name_part, unnamed
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.explanation import Cost
from llmprism.methods.prism.link_use import link_use_of
from llmprism.methods.prism.normal import without_waiting
from llmprism.methods.prism.parameters import (
    ALWAYS_SHARE,
    ALWAYS_SURE,
    FEWEST,
    LEAST_COST,
    LEAST_SURE,
    MOST_NAMED,
    MOSTLY,
    NEARLY,
    QUARTER,
)
from llmprism.methods.prism.windows import penalty_always
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.edges import Usual
from llmprism.numerics.missing import group_medians, nanmedian, nanquantile

FULL = 0.7  # of a link: what transfers use at least of one, if nothing is slower than it says


@dataclass(frozen=True)
class Persistent:
    """Something that takes longer than its peers in every step, by the share ``level``."""

    attribution: Attribution
    level: float
    cost: Cost
    confidence: float


def persistent(durations: Durations) -> Iterator[Persistent]:
    """What is slower than its peers in every step. Units that wait for a slow link are slow too."""
    if durations.steps < FEWEST:
        return
    for judge in (_slow_parts, _slow_units):
        found = next(judge(durations), None)
        if found is not None:
            yield found
            return


def _slow_units(durations: Durations) -> Iterator[Persistent]:
    """The units that work longer than others of their role in nearly all steps.

    Those of the role in which most is lost: who waits for them hides a part of that. The order of
    events counts waiting as work. So it only speaks of units that the graph shows slower as well,
    or does not show at all.
    """
    role, edges_ns = _roles(durations), _edges_ns(durations)
    usual_ns = nanmedian(edges_ns, axis=1)
    groups = [np.flatnonzero(role == one) for one in np.unique(role[role >= 0]).tolist()]
    least = np.full(role.size, np.nan)
    for group in groups:
        least[group] = np.fmin.reduce(usual_ns[group])
    longer_ns = usual_ns - least
    alike = longer_ns <= np.maximum(ALWAYS_SHARE * least, LEAST_COST * durations.usual_ns)
    for measure in (edges_ns, durations.work_ns):
        shown = [(group, _slowest(measure[group])) for group in groups]
        found = [(group[one.rows], one) for group, one in shown if one is not None]
        found = [(units, one) for units, one in found if not alike[units].any()]
        if found:
            units, most = max(found, key=lambda each: each[1].lost_ns)
            named = _named(durations, units)
            yield from _judged(durations, named, most.level, most.lost_ns, most.odds)
            return


@dataclass(frozen=True)
class Slowest:
    """Rows of a table that are slower than the others: by which share, by what [ns], how surely."""

    rows: Ints
    level: float
    lost_ns: float
    odds: float


def _slowest(values: Floats) -> Slowest | None:
    """The rows that are last in nearly all steps, behind more than half of the others.

    Two rows of a step are both last if a tenth of what they are behind by parts them.
    """
    known = np.flatnonzero(np.isfinite(values).any(axis=1))
    own = values[known][:, np.isfinite(values[known]).all(axis=0)]
    if known.size < FEWEST or not own.size:
        return None
    peers = np.quantile(own, QUARTER, axis=0)
    behind = own - peers
    last = behind >= NEARLY * behind.max(axis=0)
    apart = (behind.max(axis=0) > ALWAYS_SHARE * peers) & (2 * last.sum(axis=0) <= known.size)
    always = (last & apart).mean(axis=1) >= NEARLY
    if not always.any():
        return None
    steps = apart & last[always].any(axis=0)
    odds = float(np.log(known.size / last[:, steps].sum(axis=0)).sum())
    lost_ns = float(np.median(behind[always]))
    return Slowest(known[always], lost_ns / float(np.median(peers)), lost_ns, odds)


def _edges_ns(durations: Durations) -> Floats:
    """Computation of each unit in each step without waiting [ns], shape (units, steps).

    Who waits in every step takes longer than others of the same operation, not than itself.
    """
    graph, rank = durations.measured, durations.measured.nodes.rank
    usual = durations.reference.usual(graph.compute)
    of_kinds = [group_medians(one, graph.nodes.operation) for one in usual.median.T]
    beside = Usual(np.column_stack(of_kinds), usual.kind)
    compute = without_waiting(graph, beside, durations.rendezvous)
    total, known = np.zeros((2, durations.work_ns.shape[0], durations.steps))
    np.add.at(total, rank, np.nan_to_num(compute))
    np.add.at(known, rank, np.isfinite(compute))
    whole = known >= NEARLY * known.max(axis=1, keepdims=True, initial=1)
    found: Floats = np.where(whole & (known > 0), total, np.nan)
    return found


def _judged(
    durations: Durations, named: Attribution, level: float, lost_ns: float, odds: float
) -> Iterator[Persistent]:
    """The finding, if it is no chance and costs the job enough; ``lost_ns`` in each step."""
    usual_ns = durations.usual_ns
    odds -= penalty_always(int(durations.work_ns.shape[0]), durations.steps)
    costs = lost_ns > LEAST_COST * usual_ns or level > 1
    if odds > 0 and costs and named.sure * MOST_NAMED >= 1:
        cost = Cost(max(usual_ns - lost_ns, 1.0), usual_ns, lost_ns * durations.steps, odds)
        sure = float(ALWAYS_SURE * (1 - np.exp(-odds)))
        if named.sure < LEAST_SURE:
            named = unnamed(named, durations.job)
        yield Persistent(named, level, cost, sure * float(np.sqrt(named.sure)))


def _slow_parts(durations: Durations) -> Iterator[Persistent]:
    """The part of the network that explains communicators whose links are less used than others.

    A hop that bursts as fast as its links allow proves that all of its path is healthy, and one
    that rests waits for another one. So a communicator is slow if none of its hops that send all
    the time uses a link fully.
    """
    slower, least = _slower(durations)
    is_slow = np.nan_to_num(nanmedian(slower, axis=1)) > least
    slow = np.flatnonzero(is_slow)
    named = name_part(durations, [_seen(durations, slower, is_slow)]) if slow.size else None
    if named is None:
        return
    share = np.nan_to_num(slower[slow])
    known = max(int(np.isfinite(slower[slow]).any(axis=0).sum()), 1)
    lost_ns = float((durations.on_path.transfer[slow] * share).sum()) / known
    level = float(np.median(share[share > 0]) / (1 - np.median(share[share > 0])))
    steps = int((share > least[slow, None]).any(axis=0).sum())
    odds = steps * float(np.log(max(np.isfinite(slower).any(axis=1).sum() / slow.size, 2.0)))
    yield from _judged(durations, named, level, lost_ns, odds)


def _slower(durations: Durations) -> tuple[Floats, Floats]:
    """By which share each communicator stays below full use in each step, and what is too much.

    Full use is what the fastest connections reach, if that is near a capacity; else nothing is
    known (NaN). Where hops rest between bursts at full use, a small difference is too much.
    """
    context, communicators = durations.context, durations.graph.nodes.communicators
    every = [nanmedian(link_use_of(context, job).best, axis=1) for job in context.jobs if job.count]
    reach = min(float(np.nan_to_num(nanquantile(np.concatenate(every), NEARLY))), 1.0)
    use = link_use_of(context, durations.job)
    slower = np.full((len(communicators), durations.steps), np.nan)
    least = np.full(len(communicators), 1 - FULL)
    for number, one in enumerate(communicators if reach >= MOSTLY else ()):
        rows, limiting = use.place[one.connections], _limiting(durations, one.connections)
        slower[number] = np.clip(1 - np.fmax.reduce(use.best[limiting]) / reach, 0, 1)
        rests = nanmedian(use.best[np.setdiff1d(rows, limiting)], axis=1) >= NEARLY * reach
        least[number] = 1 - NEARLY if rests.any() else 1 - FULL
    return slower, least


def _limiting(durations: Durations, connections: Ints) -> Ints:
    """The rows of the connections that send all the time that any of them does."""
    use = link_use_of(durations.context, durations.job)
    rows = use.place[connections]
    busy = nanmedian(use.busy_ns[rows], axis=1)
    found: Ints = rows[busy >= NEARLY * busy.max()]
    return found


def _seen(durations: Durations, slower: Floats, is_slow: Bools) -> dict[int, Seen]:
    """What communicators show: those that are slow by the hops that limit them."""
    place, seen = link_use_of(durations.context, durations.job).place, {}
    for number in np.flatnonzero(np.isfinite(slower).any(axis=1)).tolist():
        own = durations.graph.nodes.communicators[number].connections
        limits = np.isin(place[own], _limiting(durations, own)).astype(np.float64).tolist()
        chance = dict(zip(own.tolist(), limits, strict=True)) if is_slow[number] else None
        seen[number] = Seen(bool(is_slow[number]), chance)
    return seen


def _roles(durations: Durations) -> Ints:
    """A number for the units of one stage that take part in as many operations.

    -1 for units of a pipeline whose stage is not known.
    """
    stage = durations.job.pipelines.stage
    parts = np.bincount(durations.graph.nodes.rank, minlength=stage.size)
    roles: Ints = np.unique(np.stack((stage, parts)), axis=1, return_inverse=True)[1].ravel()
    roles[(stage < 0) & (durations.job.pipelines.length > 1)] = -1
    return roles


def _named(durations: Durations, units: Ints) -> Attribution:
    """A unit or a server of which all units are slow; several that are as likely, as a set."""
    names: dict[str, str] = {}
    for unit in units.tolist():
        beside = np.flatnonzero(durations.servers == durations.servers[unit])
        if beside.size > 1 and np.isin(beside, units).all():
            names[durations.server_name(int(durations.servers[unit]))] = "server"
        else:
            names[durations.address(unit)] = "address"
    first, kind = next(iter(names.items()))
    cause = "slow_server" if kind == "server" else "slow_gpu"
    evidence = {
        "or_causes": [one for one in SLOW if one != cause],
        **({"one_of": [*names][:MOST_NAMED]} if len(names) > 1 else {}),
    }  # fmt: skip
    return Attribution("rank", "slow_passes", cause, kind, first, evidence, 1 / len(names))

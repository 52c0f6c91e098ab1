"""Parts of the network that are slow: a NIC, a link, a switch, or one direction of one of them.

That transfers are slow shows on the critical path. Which part is slow follows from all
communicators of the job: those that are slow cross it, and those that cross it are slow. A slow one
has a connection that sends for longer; where all are silent longer, a rank made a pause. Within a
ring, the hops that limit it cross it, and the others do not. Parts that explain these observations
equally well are named together.

All hops of a ring go at the pace of the slowest one. A slow hop sends for longer than usual, while
the others wait between blocks, which records show if the exporter does not bridge these silences.
And nobody waits after the last round, so a slow hop ends later than the others. Either may mislead:
acknowledgements cross other links, and hops that wait end at other times too. So each counts half.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.culprits.base import Attribution, Hypothesis, Lost, Scene
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.links import ARROW, crossed, culprit_of
from llmprism.methods.prism.parameters import (
    AS_LIKELY,
    BUSY,
    DIRECTED,
    ENDS_APART,
    FALSE_HIT,
    HIT,
    IDLE,
    LAST_ROUND,
    LATEST,
    MOST_NAMED,
    SLOW_DEVIATIONS,
    SLOW_SHARE,
    WHOLE_SWITCH,
)
from llmprism.methods.prism.windows import WITH_PAUSES, Window
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import finite_median, nanmedian, spread

SEEN = float(np.log(HIT / FALSE_HIT))
SYMPTOM = "slow_transfers"
NOT_SEEN = float(np.log((1 - HIT) / (1 - FALSE_HIT)))


def network(lost: Lost) -> Iterator[Hypothesis]:
    """All transfers of the job, as they delay its steps along the critical path."""
    longer = lost.durations.on_path.transfer_longer.sum(axis=0)
    prior = float(np.log(max(np.unique(lost.servers[lost.seen]).size, 1)))
    yield Hypothesis("network", np.clip(longer, 0.0, lost.bound_ns), _attributed, prior)


@dataclass(frozen=True)
class Seen:
    """What one communicator shows.

    Attributes
    ----------
    is_slow : whether it is slow.
    limits : chance that each connection is a bottleneck; None if records do not show which.
    """

    is_slow: bool
    limits: Mapping[int, float] | None


def _attributed(scene: Scene, _: Hypothesis) -> Attribution | None:
    """The part of the network that explains the slow transfers of a window best."""
    seen = seen_within(scene.durations, scene.window)
    part = name_part(scene.durations, seen)
    return None if part is None else in_pauses(part, scene.window)


def in_pauses(part: Attribution, window: Window) -> Attribution:
    """The same ``part``, which goes down and comes up again if it is a NIC with pauses."""
    if part.kind != "address" or window.shape != WITH_PAUSES:
        return part
    others = {"or_causes": [part.cause, "slow_link"]}
    return replace(part, cause="flapping_nic", evidence={**part.evidence, **others})


def seen_within(durations: Durations, window: Window) -> list[Mapping[int, Seen]]:
    """What communicators show in a window: in each of its steps by itself where these differ.

    A pause holds up whatever is sent at that moment, which is another transfer in every step.
    """
    inside, affected = window.steps(durations.steps), window.affected(durations.steps)
    if window.shape != WITH_PAUSES:
        return [seen_in(durations, inside, affected)]
    each = np.eye(durations.steps, dtype=np.bool_)[affected]
    return [seen_in(durations, inside, one) for one in each]


def name_part(durations: Durations, seen: Sequence[Mapping[int, Seen]]) -> Attribution | None:
    """The part that explains best which communicators are slow; None if none is."""
    slow = {number for once in seen for number, one in once.items() if one.is_slow}
    if not slow:
        return None
    every = {number for once in seen for number in once}
    evidence = {"slow_communicators": len(slow), "communicators": len(every)}
    return named_of(durations.context, log_odds(durations, seen), evidence)


def named_of(
    context: Context, shown: Mapping[str, float], evidence: Mapping[str, Any]
) -> Attribution:
    """The likeliest part by the log odds ``shown``, and those that are nearly as likely.

    A NIC and the link to it are one part: records cannot tell them apart.
    """
    prior = {
        part: DIRECTED * (ARROW in part) + WHOLE_SWITCH * (culprit_of(context, part)[0] == "switch")
        for part in shown
    }
    odds = {part: own - prior[part] for part, own in shown.items()}
    order = sorted(odds, key=lambda part: (-odds[part], part))
    best = odds[order[0]]
    near = [part for part in order if odds[part] > best - AS_LIKELY]
    weight = np.exp([odds[part] - best for part in near])
    names: dict[str, float] = {}
    for part, one in zip(near, weight.tolist(), strict=True):
        name = culprit_of(context, part)[1]
        names[name] = names.get(name, 0.0) + one
    kind, name, cause = culprit_of(context, order[0])
    causes = [*dict.fromkeys(culprit_of(context, part)[2] for part in near)]
    known = {**evidence, "one_of": list(names)[:MOST_NAMED], "or_causes": causes[1:]}
    nic = set(name.split("|")) & context.topology.codes.keys()
    same = sum(one for other, one in names.items() if other == name or nic & {*other.split("|")})
    return Attribution("network", SYMPTOM, cause, kind, name, known, same / sum(names.values()))


def unnamed(part: Attribution, job: JobView) -> Attribution:
    """The job, where its transfers are slow and many parts explain that as well as ``part``."""
    return Attribution("job", SYMPTOM, "unknown", "job", job.name, part.evidence)


def seen_in(durations: Durations, inside: Bools, affected: Bools) -> dict[int, Seen]:
    """What each communicator shows that sends in the affected steps.

    Where its operations are not known in them, how long its connections send is.
    """
    judged = np.flatnonzero(durations.transfer.normal_ns > 0).tolist()
    seen = {number: _seen(durations, number, inside, affected) for number in judged}
    return seen | dict(_of_collectives(durations, seen, affected))


def _of_collectives(
    durations: Durations, seen: Mapping[int, Seen], affected: Bools
) -> Iterator[tuple[int, Seen]]:
    """What slow communicators show, of which several are rings of one collective."""
    nodes, together = durations.graph.nodes, durations.rendezvous.of
    _, first = np.unique(nodes.communicator, return_index=True)
    slow = np.array([number for number, one in seen.items() if one.is_slow], np.int64)
    meets = together[first[slow]]
    for met in np.unique(meets).tolist():
        rings = slow[meets == met]
        of_rings = [nodes.communicators[ring].connections for ring in rings.tolist()]
        chances = slowest_rings(durations, of_rings, affected) if rings.size > 1 else None
        if chances is None:
            continue
        for ring, hops, chance in zip(rings.tolist(), of_rings, chances.tolist(), strict=True):
            known = seen[ring].limits
            if known is not None or chance < 1:
                known = known or dict.fromkeys(hops.tolist(), 1.0)
                yield ring, Seen(True, {hop: chance * own for hop, own in known.items()})


def _seen(durations: Durations, number: int, inside: Bools, affected: Bools) -> Seen:
    """What a communicator shows in the steps of a window that are affected."""
    table = durations.transfer
    own = table.excess[number]
    error = table.error[number] / np.sqrt(max(np.isfinite(own[affected]).sum(), 1))
    known = np.isfinite(own[affected]).any()
    if known and more_in(own, inside, affected) < max(SLOW_DEVIATIONS * error, SLOW_SHARE):
        return Seen(False, None)
    connections = durations.graph.nodes.communicators[number].connections
    if not _sends_longer(durations.traffic.of(connections)[0], inside, affected):
        return Seen(False, None)
    return Seen(True, bottlenecks(durations, connections, affected))


def _sends_longer(busy: Floats, inside: Bools, affected: Bools) -> bool:
    """Whether any connection sends for longer in the affected steps than in those outside."""
    usual = nanmedian(busy[:, ~inside], axis=1)
    own = busy / np.where(usual > 0, usual, np.nan)[:, None]
    more = np.array([more_in(series, inside, affected) for series in own])
    least = SLOW_DEVIATIONS * np.nan_to_num(spread(own)) / np.sqrt(max(int(affected.sum()), 1))
    return bool((more > np.maximum(least, SLOW_SHARE)).any())


def log_odds(durations: Durations, seen: Sequence[Mapping[int, Seen]]) -> dict[str, float]:
    """Log likelihood of each part that any connection crosses, against that of none."""
    odds: dict[str, float] = {}
    for number, one in (item for once in seen for item in once.items()):
        connections = durations.graph.nodes.communicators[number].connections.tolist()
        for part, crossing in _crossings(durations, connections).items():
            odds[part] = odds.get(part, 0.0) + _evidence(one, crossing)
    return odds


def _evidence(one: Seen, crossing: list[int]) -> float:
    """What a communicator says of a part that some of its connections cross."""
    if not one.is_slow:
        return NOT_SEEN
    if one.limits is None:
        return SEEN
    return sum(
        one.limits[connection] * SEEN + (1 - one.limits[connection]) * NOT_SEEN
        for connection in crossing
    )


def _crossings(durations: Durations, connections: list[int]) -> dict[str, list[int]]:
    """The connections that cross each part."""
    found: dict[str, list[int]] = {}
    kept = durations.context.measured.setdefault(_crossings, {})
    for connection in connections:
        if connection not in kept:
            kept[connection] = crossed(durations.context, connection)
        for part in kept[connection]:
            found.setdefault(part, []).append(connection)
    return found


def with_other_jobs(
    named: Attribution, window: Window, own: Durations, others: Sequence[Durations]
) -> Attribution:
    """``named`` again, by what other jobs show as well, if it is a part of the network."""
    if named.symptom != SYMPTOM or not others:
        return named
    job = own.job
    odds = log_odds(own, seen_within(own, window))
    if not odds:
        return named
    first_ns, last_ns = job.start_ns[window.first], job.end_ns[window.last]
    for other in others:
        inside = (other.job.end_ns > first_ns) & (other.job.start_ns < last_ns)
        if inside.any() and (~inside).sum() > 1:
            for part, more in log_odds(other, [seen_in(other, inside, inside)]).items():
                if part in odds:
                    odds[part] += more
    jobs = 1 + sum(np.isfinite(other.transfer.excess).any() for other in others)
    return in_pauses(named_of(own.context, odds, {**named.evidence, "jobs": int(jobs)}), window)


def bottlenecks(
    durations: Durations, connections: Ints, inside: Bools
) -> Mapping[int, float] | None:
    """Chance that each of the ``connections`` limits the others in a window; None if not shown."""
    if connections.size == 1:
        return {int(connections[0]): 1.0}
    busy, last = durations.traffic.of(connections)
    shown = [_by_sending(busy, inside), _by_ends(last, busy, inside)]
    known = [chance for chance in shown if chance is not None]
    if not known:
        return None
    return dict(zip(connections.tolist(), np.mean(known, axis=0).tolist(), strict=True))


def slowest_rings(durations: Durations, rings: Sequence[Ints], inside: Bools) -> Floats | None:
    """Chance that each ring limits the others of its collective in a window; None if not shown.

    Rings of one collective end together in other steps.
    """
    measured = [durations.traffic.of(ring) for ring in rings]
    busy, last = (
        np.array([np.fmax.reduce(one) for one in both]) for both in zip(*measured, strict=True)
    )
    apart = np.abs(last - nanmedian(last, axis=0))[:, ~inside]
    if not np.isfinite(apart).any() or np.nanmedian(apart) > LAST_ROUND * np.nanmedian(busy):
        return None
    return _by_ends(last, busy, inside)


def _by_ends(last: Floats, busy: Floats, inside: Bools) -> Floats | None:
    """Hops that end later than usual, beside the others; None if none does so clearly."""
    later = last - nanmedian(last, axis=0)
    more = nanmedian(later[:, inside], axis=1) - np.nan_to_num(nanmedian(later[:, ~inside], axis=1))
    ahead = np.fmax.reduce(more) - more
    longest = float(np.nan_to_num(np.fmax.reduce(ahead)))
    noise = float(np.nan_to_num(finite_median(spread(later)))) / np.sqrt(max(int(inside.sum()), 1))
    last_round_ns = LAST_ROUND * more_in(nanmedian(busy, axis=0), inside, inside)
    if longest <= max(ENDS_APART * noise, last_round_ns):
        return None
    return np.where(np.nan_to_num(ahead, nan=np.inf) < LATEST * longest, 1.0, FALSE_HIT)


def more_in(values: Floats, inside: Bools, affected: Bools) -> float:
    """By how much the median of the affected steps exceeds that of those outside."""
    usual = np.nan_to_num(finite_median(values[~inside]))
    return float(np.nan_to_num(finite_median(values[affected]) - usual))


def _by_sending(busy: Floats, inside: Bools) -> Floats | None:
    """Hops that send for longer than usual, beside the others; None if all or none do."""
    during = nanmedian(busy[:, inside], axis=1)
    before = nanmedian(busy[:, ~inside], axis=1) if (~inside).any() else np.nanmin(during)
    longer = during - before
    noise = float(np.nan_to_num(np.nanmedian(spread(busy)))) / np.sqrt(max(int(inside.sum()), 1))
    most = float(np.nanmax(longer)) if np.isfinite(longer).any() else 0.0
    share = np.nan_to_num(longer / most) if most > ENDS_APART * noise else np.ones(longer.size)
    if share.min() > IDLE:
        return None
    return np.clip((share - IDLE) / (BUSY - IDLE), FALSE_HIT, 1.0)

"""Parts of the network that are slow: a NIC, a link, a switch, or one direction of one of them.

That transfers are slow shows on the critical path. Which part is slow follows from all
communicators of the job: those that are slow cross it, and those that cross it are slow. A slow one
has a connection that sends for longer; where all are silent longer, a rank made a pause. Within a
ring, the hops that limit it (:mod:`~llmprism.methods.prism.culprits.bottlenecks`) cross it, and the
others do not. Parts that explain these observations equally well are named together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.culprits.base import Attribution, Hypothesis, Lost, Scene
from llmprism.methods.prism.culprits.bottlenecks import bottlenecks, more_in, slowest_rings
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.links import ARROW, crossed, culprit_of
from llmprism.methods.prism.parameters import (
    AS_LIKELY,
    DIRECTED,
    FALSE_HIT,
    HIT,
    MOST_NAMED,
    SLOW_DEVIATIONS,
    SLOW_SHARE,
    WHOLE_SWITCH,
)
from llmprism.methods.prism.windows import WITH_PAUSES, Window
from llmprism.numerics.arrays import Bools, Floats
from llmprism.numerics.missing import nanmedian, spread

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
    context: Context, odds: Mapping[str, float], evidence: Mapping[str, Any]
) -> Attribution:
    """The likeliest part by its log ``odds``, and those that are nearly as likely.

    A NIC and the link to it are one part: records cannot tell them apart.
    """
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
    for part in odds:
        odds[part] -= DIRECTED * (ARROW in part)
        odds[part] -= WHOLE_SWITCH * (culprit_of(durations.context, part)[0] == "switch")
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

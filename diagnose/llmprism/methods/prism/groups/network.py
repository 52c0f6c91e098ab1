"""Parts of the network that are slow: a NIC, a link, a switch, or one direction of one of them.

That transfers are slow shows on the critical path. Which part is slow follows from all
communicators of the job: those that are slow cross it, and those that cross it are slow. Within a
ring, the hops that limit it (:mod:`~llmprism.methods.prism.groups.bottlenecks`) cross it, and the
others do not. Parts that explain these observations equally well are named together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.baseline import spread
from llmprism.methods.prism.durations import TRANSFER, Durations
from llmprism.methods.prism.faults.measures.hops import ARROW, crossed, culprit_of
from llmprism.methods.prism.groups.base import Group, Named
from llmprism.methods.prism.groups.bottlenecks import bottlenecks
from llmprism.methods.prism.parameters import (
    AS_LIKELY,
    DIRECTED,
    FALSE_HIT,
    HIT,
    MOST_NAMED,
    NOISE_FLOOR,
    SLOW_DEVIATIONS,
    SLOW_SHARE,
    WHOLE_SWITCH,
)
from llmprism.methods.prism.windows import Window
from llmprism.numerics.arrays import Bools

SEEN = float(np.log(HIT / FALSE_HIT))
NOT_SEEN = float(np.log((1 - HIT) / (1 - FALSE_HIT)))


def network(durations: Durations) -> Iterable[Group]:
    """All transfers of the job, as they delay its steps."""
    known = np.isfinite(durations.transfer.excess).any(axis=0)
    lost = durations.on_path.transfer_longer.sum(axis=0)
    share = np.where(known, lost / max(durations.usual_ns, 1.0), np.nan)
    share[durations.job.phases.first_of_epoch] = np.nan
    noise = max(
        float(np.nan_to_num(spread(share[None])[0])),
        NOISE_FLOOR,
        durations.tick_ns / max(durations.usual_ns, 1.0),
    )
    rows = np.arange(len(durations.transfer.excess))
    yield Group(TRANSFER, rows, 1, share, noise, lost, _named)


@dataclass(frozen=True)
class Seen:
    """What one communicator shows: whether it is slow, and which connections limit it.

    Attributes
    ----------
    limits : chance that each connection is a bottleneck; None if records do not show which.
    """

    is_slow: bool
    limits: Mapping[int, float] | None


def _named(durations: Durations, window: Window) -> Named | None:
    """The part of the network that explains the slow transfers of a window best."""
    inside = window.steps(durations.steps)
    seen = {number: _seen(durations, number, inside) for number in _judged(durations, inside)}
    return name_part(durations, {number: one for number, one in seen.items() if one})


def name_part(durations: Durations, seen: Mapping[int, Seen]) -> Named | None:
    """The part that explains best which communicators are slow; None if none is."""
    if not any(one.is_slow for one in seen.values()):
        return None
    odds = log_odds(durations, seen)
    order = sorted(odds, key=lambda part: (-odds[part], part))
    best = odds[order[0]]
    near = [part for part in order if odds[part] > best - AS_LIKELY]
    weight = np.exp([odds[part] - best for part in near])
    names: dict[str, float] = {}
    for part, one in zip(near, weight.tolist(), strict=True):
        name = culprit_of(durations.context, part)[1]
        names[name] = names.get(name, 0.0) + one
    kind, name, cause = culprit_of(durations.context, order[0])
    slow = sum(one.is_slow for one in seen.values())
    evidence = {
        "one_of": list(names)[:MOST_NAMED],
        "slow_communicators": slow,
        "communicators": len(seen),
    }
    sure = names[name] / sum(names.values())
    return Named("network", "slow_transfers", cause, kind, name, evidence, sure)


def _judged(durations: Durations, inside: Bools) -> list[int]:
    """Communicators whose excess is known in the window and outside of it."""
    known = np.isfinite(durations.transfer.excess)
    both = known[:, inside].any(axis=1) & (durations.transfer.normal_ns > 0)
    return [int(number) for number in np.flatnonzero(both)]


def _seen(durations: Durations, number: int, inside: Bools) -> Seen | None:
    """What a communicator shows in a window."""
    table = durations.transfer
    own = table.excess[number]
    outside = own[~inside & np.isfinite(own)]
    usual = float(np.median(outside)) if outside.size else 0.0
    more = float(np.nanmedian(own[inside])) - usual
    error = table.error[number] / np.sqrt(np.isfinite(own[inside]).sum())
    if more < max(SLOW_DEVIATIONS * error, SLOW_SHARE):
        return Seen(False, None)
    connections = durations.graph.nodes.communicators[number].connections
    return Seen(True, bottlenecks(durations, connections, inside))


def log_odds(durations: Durations, seen: Mapping[int, Seen]) -> dict[str, float]:
    """Log likelihood of each part that any connection crosses, against that of none."""
    odds: dict[str, float] = {}
    for number, one in seen.items():
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

"""Rates of transfers, judged over a stretch of steps: which are slow, and through which parts.

Connections of a collective group that are slow alike are judged as one, since all go at the pace
of the slowest one. Where their wires show which of them it is, only that one is slow; others whose
wires are busy for nearly as long are no evidence of health. So are rings with the same hops between
servers, which move one collective together. Where the wires of one of these rings rest now and
then, records show such rests. So a ring none of whose wires rests has no hop that waits: each of
them is slow, as where all of them cross a slow switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.measures.rates import Rates
from llmprism.methods.prism.faults.measures.series import DEVIATIONS
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import finite_median

ALIKE = 0.7  # share of a group's rates that are slow from which all hops go at one pace
BUSIEST = 0.95  # of the longest time on the wire: the slow hops of a ring
WIRE_NOISE = 3.0  # deviations of the busiest hop: others within these may be as slow
AS_BUSY = 0.7  # of the time by which the wires of another ring are busy for longer
RESTS = 0.85  # of the longest time on the wire of a ring: hops that are busy for less rest
NEARER = 0.5  # of the logarithm of the pace of slow ones
LEAST_SHARE = 0.5  # share of a stretch's steps in which a conversation is slow


@dataclass(frozen=True)
class Bundle:
    """Rates that are judged as one: where they lead through, and how slow they are.

    Attributes
    ----------
    slow : whether they are slow by themselves.
    ratio : pace over the healthy one.
    paced : whether others of their collective make them as slow as they are.
    """

    kind: str
    crosses: frozenset[str]
    slow: bool
    ratio: float
    conversation: int = -1
    paced: bool = False


@dataclass
class _Judged:
    """Every connection over a stretch of steps.

    Attributes
    ----------
    seen : whether it shows anything about the parts that it crosses.
    slow : whether it is slow by itself.
    late : whether it is slow, or waits for a slow one.
    waits : whether it waits.
    middle, busy : median of its pace, and of the time that its wire is busy, over the healthy ones.
    """

    seen: Bools
    slow: Bools
    late: Bools
    waits: Bools
    middle: Floats
    busy: Floats


def bundles_of(rates: Rates, first: int, last: int) -> list[Bundle]:
    """Judge every connection over a stretch; those of a group that are slow alike become one.

    Unless their wires show which of them are the slow ones.
    """
    one = _judged(rates, first, last)
    bundles: list[Bundle] = []
    joined = np.zeros(one.slow.size, np.bool_)
    for group in np.unique(rates.group[rates.group >= 0]).tolist():
        own = np.flatnonzero((rates.group == group) & one.seen)
        if own.size < 2 or not one.slow[own].any() or one.waits[own].any():
            continue
        if one.slow[own].mean() < ALIKE or _parted_by_wires(rates, one, own):
            continue
        if _none_rests(rates, one, own):
            continue
        crosses = frozenset().union(*(rates.crosses[i] for i in own.tolist()))
        bundles.append(Bundle(rates.kind[own[0]], crosses, True, float(one.middle[own].max())))
        joined[own] = True
    alone = np.flatnonzero(one.seen & ~joined).tolist()
    return bundles + [
        Bundle(
            rates.kind[i],
            rates.crosses[i],
            bool(one.slow[i]),
            float(one.middle[i]),
            int(rates.conversation[i]),
            bool(one.late[i] and not one.slow[i]),
        )
        for i in alone
    ]


def _judged(rates: Rates, first: int, last: int) -> _Judged:
    """Judge each connection by its pace, its wire, and whether it waits."""
    out = rates.pace.out[:, first : last + 1]
    ratio = rates.pace.ratio[:, first : last + 1]
    seen = np.isfinite(ratio).any(axis=1)
    slow = seen & (out.mean(axis=1) >= LEAST_SHARE)
    middle = np.array([finite_median(row) for row in ratio])
    busy = np.array([finite_median(row) for row in rates.busy[:, first : last + 1]])
    seen &= slow | ~_blind(rates, slow, middle, np.isfinite(ratio).sum(axis=1))
    seen &= slow | ~_nearly(slow, middle)
    waits = waiting(rates, first, last)
    late = slow.copy()
    slow &= ~waits
    idle = slow & _in_idle_rings(rates, seen & late, middle, busy)
    seen &= ~(waits & _may_be_slow(rates, late, busy))
    slow &= ~idle
    seen &= ~(idle & (np.log(busy) > NEARER * np.log(middle)))  # slow itself, but less
    return _Judged(seen, slow, late, waits, middle, busy)


def _parted_by_wires(rates: Rates, one: _Judged, own: Ints) -> bool:
    """Whether the wires of a group show which connections are slow; the others then are not."""
    busy, middle = one.busy[own], one.middle[own]
    most = np.nanmax(busy)
    noise = float(rates.pace.noise[own[np.nanargmax(busy)]])
    within = 1 - max(1 - BUSIEST, WIRE_NOISE * noise)
    busiest = busy >= within * most
    slowest = middle >= within * np.nanmax(middle)
    if busiest.mean() >= ALIKE or not (busiest & slowest).any():
        return False
    one.slow[own] &= busiest
    one.seen[own] &= one.slow[own] | ~(np.log(busy) > NEARER * np.log(most))
    return True


def _none_rests(rates: Rates, one: _Judged, own: Ints) -> bool:
    """Whether every connection of a group is slow by itself, as the wire of none of them rests.

    Those of another ring of the same collective rest, and for no longer than these would if they
    waited: so records show it.
    """
    if rates.ends is None or rates.ends.family[own[0]] < 0:
        return False
    if not (one.busy[own] >= RESTS * np.nanmax(one.middle[own])).all():
        return False
    beside = one.late & np.isfinite(one.busy) & (rates.ends.family == rates.ends.family[own[0]])
    would_rest = float(one.middle[own].min()) - 1
    for group in np.unique(rates.group[beside]).tolist():
        busy = one.busy[beside & (rates.group == group)]
        least, most = float(busy.min()), float(busy.max())
        if least < RESTS * most and most - least < would_rest:
            return True
    return False


def _may_be_slow(rates: Rates, late: Bools, busy: Floats) -> Bools:
    """Connections of groups that rest on the wire, but are nearer to the busiest than to health.

    They are faster than the ones that they wait for, and may be slow nevertheless.
    """
    found = np.zeros(busy.size, np.bool_)
    known = late & np.isfinite(busy) & (rates.group >= 0)
    for group in np.unique(rates.group[known]).tolist():
        own = np.flatnonzero(known & (rates.group == group))
        most = float(busy[own].max())
        rests = busy[own] < RESTS * most
        found[own] = rests & (np.log(busy[own]) > NEARER * np.log(most))
    return found


def waiting(rates: Rates, first: int, last: int) -> Bools:
    """Connections that wait for slow ones of their collective, so far as ends show that."""
    if rates.ends is None:
        return np.zeros(rates.group.size, np.bool_)
    waits: Bools = rates.ends.own_share(rates.lost, first, last) == 0
    return waits


def _in_idle_rings(rates: Rates, late: Bools, middle: Floats, busy: Floats) -> Bools:
    """Late connections of rings whose wires are idle while all those of another one are not.

    The rings of one collective, with the same hops between servers, wait for the slowest of them
    before the next one begins. The wires of that one are busy for about as long as its pace says.
    """
    idle = np.zeros_like(late)
    family = np.full(late.size, -1) if rates.ends is None else rates.ends.family
    for one in np.unique(family[late & (family >= 0)]).tolist():
        own = np.flatnonzero(late & (family == one) & np.isfinite(busy))
        rings = [own[rates.group[own] == ring] for ring in np.unique(rates.group[own]).tolist()]
        least = [float(busy[rows].min()) for rows in rings]
        if least and np.log(max(least)) > NEARER * np.log(middle[rings[np.argmax(least)]].max()):
            for rows, busy_for in zip(rings, least, strict=True):
                idle[rows] = busy_for - 1 < AS_BUSY * (max(least) - 1)
    return idle


def _blind(rates: Rates, slow: Bools, middle: Floats, steps: Ints) -> Bools:
    """Connections whose paces vary so much that so many steps do not show what the slow ones show.

    Where the clock is coarse, for instance, short messages have no pace. That they look healthy
    does not clear any part of the network.
    """
    if not slow.any():
        return slow
    excess = float(np.median(middle[slow])) - 1
    blind: Bools = DEVIATIONS * rates.pace.noise > excess * np.sqrt(np.maximum(steps, 1))
    return blind


def _nearly(slow: Bools, middle: Floats) -> Bools:
    """Connections that are slow in few steps, but nearer to the slow ones than to healthy ones.

    They do not clear any part of the network either.
    """
    if not slow.any():
        return slow
    nearly: Bools = np.log(middle) > NEARER * np.log(np.median(middle[slow]))
    return nearly


def conversations_of(bundles: Sequence[Bundle]) -> list[Bundle]:
    """Both directions as one: a transfer needs its answers, and is as slow as the slower one."""
    by: dict[int, list[Bundle]] = {}
    for number, one in enumerate(bundles):
        by.setdefault(one.conversation if one.conversation >= 0 else -2 - number, []).append(one)
    return [
        Bundle(
            own[0].kind,
            frozenset().union(*(one.crosses for one in own)),
            any(one.slow for one in own),
            max(one.ratio for one in own),
        )
        for own in by.values()
    ]

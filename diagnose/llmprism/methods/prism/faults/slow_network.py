"""NICs, links and switches that carry less than they should, seen in the pace of transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.hops import ARROW, culprit_of
from llmprism.methods.prism.faults.rates import Rates, rates_of
from llmprism.methods.prism.faults.series import DEVIATIONS, SHORTEST, stretches
from llmprism.methods.prism.faults.suspects import Suspect
from llmprism.methods.prism.faults.tomography import Part, equals, ranked
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import finite_median

ALIKE = 0.7  # share of a group's rates that are slow from which all hops go at one pace
BUSIEST = 0.95  # of the longest time on the wire: the slow hops of a ring
CONTRAST = 0.5  # of what is lost by slow transfers: what the others may lose at most
WIRE_NOISE = 3.0  # deviations by which the wires of hops differ that have nothing to do with it
LEAST_SHARE = 0.5  # share of a stretch's steps in which a conversation is slow


@dataclass(frozen=True)
class Bundle:
    """Rates that are judged as one: where they lead through, and how slow they are."""

    kind: str
    crosses: frozenset[str]
    slow: bool
    ratio: float
    conversation: int = -1


def slow_network(context: Context) -> Iterator[Suspect]:
    """Bring forward the parts of the network that explain slow transfers."""
    measured = [(job, rates_of(context, job)) for job in context.jobs]
    for job, rates in measured:
        for first, last in _windows(rates):
            extent = int(job.start_ns[first]), int(job.end_ns[last])
            bundles = bundles_of(rates, first, last)
            for other, theirs in measured:
                steps = _steps_within(other, extent) if other is not job else None
                if steps is not None:
                    bundles += bundles_of(theirs, *steps)
            best, suspect = _suspect(context, job, bundles, (first, last))
            if suspect is not None:
                begin, end = _narrowed(rates, best, first, last)
                if end - begin + 1 >= SHORTEST:
                    yield replace(suspect, first=begin, last=end)


def _windows(rates: Rates) -> list[tuple[int, int]]:
    """Stretches worth an explanation: the heaviest first, without those that overlap one."""
    weighed = []
    for ratio, out in zip(rates.pace.ratio, rates.pace.lasting, strict=True):
        for first, last in stretches(out):
            excess = np.log(ratio[first : last + 1])
            weighed.append((-round(float(np.nansum(excess)), 6), first, last))
    chosen: list[tuple[int, int]] = []
    for _, first, last in sorted(weighed):
        if all(min(last, end) - max(first, begin) < 0 for begin, end in chosen):
            chosen.append((first, last))
    return sorted(chosen)


def _steps_within(job: JobView, extent: tuple[int, int]) -> tuple[int, int] | None:
    """First and last step of ``job`` that lie within a time; None if there are none."""
    inside = np.flatnonzero((job.start_ns >= extent[0]) & (job.end_ns <= extent[1]))
    return (int(inside[0]), int(inside[-1])) if inside.size else None


def bundles_of(rates: Rates, first: int, last: int) -> list[Bundle]:
    """Judge every connection over a stretch; those of a group that are slow alike become one.

    Unless their wires show which of them are the slow ones.
    """
    out = rates.pace.out[:, first : last + 1]
    ratio = rates.pace.ratio[:, first : last + 1]
    seen = np.isfinite(ratio).any(axis=1)
    slow = seen & (out.mean(axis=1) >= LEAST_SHARE)
    middle = np.array([finite_median(row) for row in ratio])
    busy = np.array([finite_median(row) for row in rates.busy[:, first : last + 1]])
    seen &= slow | ~_blind(rates, slow, middle, np.isfinite(ratio).sum(axis=1))
    bundles: list[Bundle] = []
    joined = np.zeros(slow.size, np.bool_)
    for group in np.unique(rates.group[rates.group >= 0]).tolist():
        own = np.flatnonzero((rates.group == group) & seen)
        if own.size < 2 or not slow[own].any():
            continue
        within = np.maximum(1 - BUSIEST, WIRE_NOISE * finite_median(rates.pace.noise[own]))
        busiest = busy[own] >= (1 - within) * np.nanmax(busy[own])
        if busiest.mean() < ALIKE and busiest[np.nanargmax(middle[own])]:
            slow[own] &= busiest
        elif slow[own].mean() >= ALIKE:
            crosses = frozenset().union(*(rates.crosses[i] for i in own.tolist()))
            bundles.append(Bundle(rates.kind[own[0]], crosses, True, float(middle[own].max())))
            joined[own] = True
    alone = np.flatnonzero(seen & ~joined).tolist()
    return bundles + [
        Bundle(
            rates.kind[i],
            rates.crosses[i],
            bool(slow[i]),
            float(middle[i]),
            int(rates.conversation[i]),
        )
        for i in alone
    ]


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


def _parts(bundles: Sequence[Bundle]) -> list[Part]:
    """All parts that slow transfers cross: one direction of a part by itself, or both together."""
    found = []
    for own, directed in ((bundles, True), (conversations_of(bundles), False)):
        slow = [one for one in own if one.slow]
        weights = [float(np.log(one.ratio)) for one in slow]
        healthy = [one.crosses for one in own if not one.slow]
        parts = ranked([one.crosses for one in slow], healthy, weights)
        found += [part for part in parts if (ARROW in part.name) == directed]
    return sorted(found, key=lambda part: (-round(part.score, 6), ARROW in part.name, part.name))


def _suspect(
    context: Context, job: JobView, bundles: Sequence[Bundle], extent: tuple[int, int]
) -> tuple[str, Suspect | None]:
    """The best explanation of what is slow: the part of the network, and the suspect."""
    slow = [one for one in bundles if one.slow]
    if not slow:
        return "", None
    ratio = float(np.median([one.ratio for one in slow]))
    if _healthy_ratio(bundles) - 1 > CONTRAST * (ratio - 1):
        return "", None  # everything is slower: transfers compete, and no part is slow
    parts = _parts(bundles)
    best = _preferred(context, equals(parts))
    evidence = {
        "slow_bundles": len(slow),
        "bundles": len(bundles),
        "kinds": sorted({one.kind for one in slow}),
        "pace_ratio": round(ratio, 3),
        "pace_ratio_of_others": round(_healthy_ratio(bundles), 3),
        "suspects": [_described(part) for part in parts[:8]],
    }
    kind, name, cause, sure = _verdict(context, best, job)
    if len(best) > 1:
        named = [culprit_of(context, part.name) for part in best]
        evidence["one_of"] = list(dict.fromkeys(name for _, name, _ in named))
        evidence["or_causes"] = sorted({other for _, _, other in named} - {cause})
    suspect = Suspect(
        job, "network", "slow_transfers", cause, kind, name, *extent, 1 - 1 / ratio, sure, evidence
    )
    return best[0].name if best else "", suspect


def _narrowed(rates: Rates, part: str, first: int, last: int) -> tuple[int, int]:
    """The steps of a stretch in which most of what is slow across ``part`` is slow."""
    out = rates.pace.out[:, first : last + 1]
    across = [part in crossed for crossed in rates.crosses]
    rows = out[np.array(across, bool) & (out.mean(axis=1) >= LEAST_SHARE)]
    at = np.flatnonzero(rows.mean(axis=0) > LEAST_SHARE) if len(rows) else np.arange(0)
    return (first + int(at[0]), first + int(at[-1])) if at.size else (first, last)


def _verdict(context: Context, best: Sequence[Part], job: JobView) -> tuple[str, str, str, float]:
    """Kind and name of the culprit, the cause, and the confidence."""
    if not best:
        return "job", job.name, "slow_network", 0.5
    kind, name, cause = culprit_of(context, best[0].name)
    equal = len({culprit_of(context, part.name)[1] for part in best})
    sure = best[0].score * min(1.0, 0.6 + 0.1 * best[0].slow) / equal**0.5
    return kind, name, cause, round(min(0.99, sure), 4)


def _preferred(context: Context, best: list[Part]) -> list[Part]:
    """Of parts that explain as much, the one with fewest reasons to be healthy comes first.

    A switch all of whose links look slow is likelier than any one link; a link that is the
    only one seen of a switch is likelier than the switch. A NIC comes before both. Both directions
    come before one.
    """
    order = {"address": 0, "link": 1, "switch": 2}

    def standing(part: Part) -> tuple[bool, float, int]:
        return ARROW in part.name, -round(part.score, 3), order[culprit_of(context, part.name)[0]]

    return sorted(best, key=standing)


def _healthy_ratio(bundles: Sequence[Bundle]) -> float:
    values = [one.ratio for one in bundles if not one.slow]
    return float(np.median(values)) if values else 1.0


def _described(part: Part) -> dict[str, object]:
    return {
        "name": part.name,
        "coverage": round(part.coverage, 3),
        "purity": round(part.purity, 3),
        "slow": part.slow,
    }

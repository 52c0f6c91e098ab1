"""NICs, links and switches that carry less than they should, seen in the pace of transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.rates import Conversations, conversations_of
from llmprism.methods.prism.faults.series import stretches
from llmprism.methods.prism.faults.suspects import Suspect
from llmprism.methods.prism.faults.tomography import Part, equals, ranked
from llmprism.numerics.arrays import Floats

ALIKE = 0.7  # share of a group's conversations that are slow from which all hops go at one pace
LEAST_SHARE = 0.5  # share of a stretch's steps in which a conversation is slow


@dataclass(frozen=True)
class Bundle:
    """Conversations that are judged as one: where they lead through, and how slow they are."""

    kind: str
    crosses: frozenset[str]
    slow: bool
    ratio: float


def slow_network(context: Context) -> Iterator[Suspect]:
    """Bring forward the parts of the network that explain slow transfers."""
    measured = [(job, conversations_of(context, job)) for job in context.jobs]
    for job, conversations in measured:
        for first, last in _windows(conversations):
            extent = int(job.start_ns[first]), int(job.end_ns[last])
            bundles = bundles_of(conversations, first, last)
            for other, theirs in measured:
                steps = _steps_within(other, extent) if other is not job else None
                if steps is not None:
                    bundles += bundles_of(theirs, *steps)
            best, suspect = _suspect(context, job, bundles, (first, last))
            if suspect is not None:
                begin, end = _narrowed(conversations, best, first, last)
                yield replace(suspect, first=begin, last=end)


def _windows(conversations: Conversations) -> list[tuple[int, int]]:
    """Stretches worth an explanation: the heaviest first, without those that overlap one."""
    weighed = []
    for ratio, out in zip(conversations.pace.ratio, conversations.pace.out, strict=True):
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


def bundles_of(conversations: Conversations, first: int, last: int) -> list[Bundle]:
    """Judge every conversation over a stretch; those of a group that are slow alike become one."""
    out = conversations.pace.out[:, first : last + 1]
    ratio = conversations.pace.ratio[:, first : last + 1]
    seen = np.isfinite(ratio).any(axis=1)
    slow = seen & (out.mean(axis=1) >= LEAST_SHARE)
    middle = np.array([_middle(row) for row in ratio])
    bundles: list[Bundle] = []
    joined = np.zeros(slow.size, np.bool_)
    for group in np.unique(conversations.group[conversations.group >= 0]).tolist():
        own = np.flatnonzero((conversations.group == group) & seen)
        if own.size > 1 and slow[own].mean() >= ALIKE:
            crosses = frozenset().union(*(conversations.crosses[i] for i in own.tolist()))
            bundles.append(
                Bundle(conversations.kind[own[0]], crosses, True, float(middle[own].max()))
            )
            joined[own] = True
    alone = np.flatnonzero(seen & ~joined).tolist()
    return bundles + [
        Bundle(conversations.kind[i], conversations.crosses[i], bool(slow[i]), float(middle[i]))
        for i in alone
    ]


def _middle(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else np.nan


def _suspect(
    context: Context, job: JobView, bundles: Sequence[Bundle], extent: tuple[int, int]
) -> tuple[str, Suspect | None]:
    """The best explanation of what is slow: the part of the network, and the suspect."""
    slow = [one for one in bundles if one.slow]
    if not slow:
        return "", None
    healthy = [one.crosses for one in bundles if not one.slow]
    weights = [float(np.log(one.ratio)) for one in slow]
    parts = ranked([one.crosses for one in slow], healthy, weights)
    best = _preferred(context, equals(parts))
    ratio = float(np.median([one.ratio for one in slow]))
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
        evidence["one_of"] = [part.name for part in best]
    suspect = Suspect(
        job, "network", "slow_transfers", cause, kind, name, *extent, 1 - 1 / ratio, sure, evidence
    )
    return best[0].name if best else "", suspect


def _narrowed(conversations: Conversations, part: str, first: int, last: int) -> tuple[int, int]:
    """The steps of a stretch in which most of what is slow across ``part`` is slow."""
    out = conversations.pace.out[:, first : last + 1]
    across = [part in crossed for crossed in conversations.crosses]
    rows = out[np.array(across, bool) & (out.mean(axis=1) >= LEAST_SHARE)]
    at = np.flatnonzero(rows.mean(axis=0) > LEAST_SHARE) if len(rows) else np.arange(0)
    return (first + int(at[0]), first + int(at[-1])) if at.size else (first, last)


def _verdict(context: Context, best: Sequence[Part], job: JobView) -> tuple[str, str, str, float]:
    """Kind and name of the culprit, the cause, and the confidence."""
    if not best:
        return "job", job.name, "slow_network", 0.5
    kind = kind_of(context, best[0].name)
    cause = {"address": "slow_nic", "link": "slow_link", "switch": "slow_switch"}[kind]
    equal = len(best)
    sure = best[0].score * min(1.0, 0.6 + 0.1 * best[0].slow) / equal**0.5
    return kind, best[0].name, cause, round(min(0.99, sure), 4)


def kind_of(context: Context, part: str) -> str:
    """Whether a part is an address, a link or a switch."""
    if part in context.topology.codes:
        return "address"
    return "link" if "|" in part else "switch"


def _preferred(context: Context, best: list[Part]) -> list[Part]:
    """Of parts that explain as much, the one with fewest reasons to be healthy comes first.

    A switch all of whose links look slow is likelier than any one link; a link that is the
    only one seen of a switch is likelier than the switch. A NIC comes before both.
    """
    order = {"address": 0, "link": 1, "switch": 2}
    return sorted(best, key=lambda p: (-round(p.score, 3), order[kind_of(context, p.name)]))


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

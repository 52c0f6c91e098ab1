"""Which part of the network is accused of slow transfers: by their paces, or by the time they lost.

A part explains slow transfers if they cross it, and others do not. The suspect names the part that
explains them best, and those that explain them as well. Transfers that wait for a rank look slow as
well, so it is less sure where they take little longer, or where all transfers cross the part and
some of them are as fast as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.bundles import Bundle, conversations_of
from llmprism.methods.prism.faults.measures.hops import ARROW, culprit_of, switches_of
from llmprism.methods.prism.faults.measures.likelihood import in_order, preferred
from llmprism.methods.prism.faults.measures.rates import CLEARLY
from llmprism.methods.prism.faults.measures.tomography import CLOSE, Part, equals, ranked
from llmprism.methods.prism.faults.measures.wire_time import LostTime
from llmprism.methods.prism.faults.suspects.suspects import Suspect

CONTRAST = 0.5  # of what is lost by slow transfers: what the others may lose at most
MOSTLY = 0.5  # of the lost time: what the culprit explains
SOME = 0.3  # ... if more speaks for it: a third, as an end of one of three transfers has
LASTING = 4  # steps: the transfers of healthy jobs compete for single ones
CLEARLY_LESS = 0.5  # of what the best part explains of the lost time
OR_WAITING = 0.5  # of the confidence, if transfers that wait take as much longer


def by_pace(
    context: Context,
    job: JobView,
    bundles: Sequence[Bundle],
    extent: tuple[int, int],
    lost: Sequence[LostTime],
    by_time: Sequence[Part],
) -> tuple[str, Suspect | None]:
    """The best explanation of what is slow: the part of the network, and the suspect.

    Of parts that explain paces alike, those that explain the time that was ``lost`` come first:
    ``by_time`` has all that do.
    """
    slow = [one for one in bundles if one.slow]
    if not slow:
        return "", None
    ratio = float(np.median([one.ratio for one in slow]))
    if _healthy_ratio(bundles) - 1 > CONTRAST * (ratio - 1):
        return "", None  # everything is slower: transfers compete, and no part is slow
    parts = explaining(bundles)
    best = preferred(context, _apart(equals(parts), by_time), by_time)
    best = _or_a_switch(best, parts, lost)
    evidence = {
        "slow_bundles": len(slow),
        "bundles": len(bundles),
        "kinds": sorted({one.kind for one in slow}),
        "pace_ratio": round(ratio, 3),
        "pace_ratio_of_others": round(_healthy_ratio(bundles), 3),
        "suspects": [_described(part) for part in parts[:8]],
    }
    suspect = _accusing(context, job, best, extent, 1 - 1 / ratio, evidence)
    return best[0].name if best else "", suspect


def lost_by_time(
    context: Context,
    job: JobView,
    lost: LostTime,
    parts: Sequence[Part],
    extent: tuple[int, int],
    paced: str,
    slowest: str,
) -> Suspect | None:
    """Accuse what explains the time lost on the wire; None if ``paced`` does, too.

    ``paced`` is the part that paces name, and ``slowest`` the one that explains them best, which it
    may not do well. Where all transfers cross a part, that they last longer does not distinguish
    it: they may as well wait.
    """
    score = {part.name: part.score for part in parts}
    parts = [part for part in parts if part.name in lost.crossed]
    if extent[1] - extent[0] + 1 < LASTING or not parts:
        return None
    if lost.all_across(parts[0].name):
        return None
    if not _explains(context, parts[0], alike=parts[0].name == slowest):
        return None
    if score.get(paced, 0.0) >= CLEARLY_LESS * parts[0].score:
        return None
    near = [part for part in parts if part.score >= CLEARLY_LESS * parts[0].score]
    best = [part for part in near if part.coverage >= CLOSE * parts[0].coverage]
    best = in_order(context, best)
    share, ratio = lost.worst_across(best[0].name)
    evidence = {
        "slow_bundles": best[0].slow,
        "bundles": int(np.isfinite(lost.share).sum()),
        "kinds": lost.kinds,
        "time_ratio": round(ratio, 3),
        "suspects": [_described(part) for part in parts[:8]],
    }
    best = [replace(part, purity=part.purity**0.5) for part in best]
    one = _accusing(context, job, best, extent, 1 - 1 / ratio, evidence)
    one = replace(one, lost_share=share)
    return one if one.is_believed else None


def explaining(bundles: Sequence[Bundle]) -> list[Part]:
    """All parts that slow transfers cross: one direction of a part by itself, or both together."""
    found = []
    for own, directed in ((bundles, True), (conversations_of(bundles), False)):
        slow = [one for one in own if one.slow]
        weights = [float(np.log(one.ratio)) for one in slow]
        healthy = [one.crosses for one in own if not one.slow]
        parts = ranked([one.crosses for one in slow], healthy, weights)
        found += [part for part in parts if (ARROW in part.name) == directed]
    return sorted(found, key=lambda part: (-round(part.score, 6), ARROW in part.name, part.name))


def less_sure(one: Suspect) -> Suspect:
    """``one`` with less confidence if it is a link or switch whose transfers may as well wait.

    They take little longer; or all transfers cross it, and a good part of them is healthy. Or all
    are slow, of one job without a pipeline: they may as well wait for a rank that pauses.
    """
    if one.culprit_kind not in {"link", "switch"} or "pace_ratio" not in one.evidence:
        return one
    alone = len(one.evidence.get("slow_in_jobs", ())) <= 1 and one.job.pipelines.length == 1
    waits = alone and one.evidence["slow_bundles"] == one.evidence["bundles"]
    clears = any(
        part["name"] == one.culprit
        and part["purity"] < CLOSE
        and round(part["slow"] / part["purity"]) >= one.evidence["bundles"]
        for part in one.evidence.get("suspects", ())
    )
    if not (clears or waits) and one.evidence["pace_ratio"] >= CLEARLY:
        return one
    return replace(one, confidence=OR_WAITING * one.confidence)


def _or_a_switch(
    best: Sequence[Part], parts: Sequence[Part], lost: Sequence[LostTime]
) -> list[Part]:
    """``best``, after the switch of a link among them whose other transfers are slow, too.

    They are less slow where fewer of them share a link, and paces may not show them. Those of any
    job show it.
    """
    known = {part.name: part for part in parts}
    for link in best:
        for name in switches_of(link.name):
            if name in known and any(one.lost_beside(link.name, name) for one in lost):
                switch = known[name]
                alike = replace(switch, purity=max(switch.purity, link.score / switch.coverage))
                return [alike, *(one for one in best if one.name != name)]
    return [*best]


def _explains(context: Context, part: Part, *, alike: bool) -> bool:
    """Whether a part explains most of the lost time.

    Less is enough if it is the part that explains paces best, too; and if it is a NIC and all that
    was lost crosses it: a stall hits what is under way, and no other transfer of the NIC.
    """
    is_nic = culprit_of(context, part.name)[0] == "address"
    enough = alike or (is_nic and part.coverage >= CLOSE)
    return part.score >= (SOME if enough else MOSTLY)


def _apart(best: Sequence[Part], lost: Sequence[Part]) -> list[Part]:
    """Of parts that explain paces alike, those that explain the lost time best, if it shows any."""
    score = {part.name: part.score for part in lost}
    most = max((score.get(part.name, 0.0) for part in best), default=0.0)
    least = CLEARLY_LESS * most if most >= SOME else 0.0
    return [part for part in best if score.get(part.name, 0.0) >= least]


def _accusing(
    context: Context,
    job: JobView,
    best: Sequence[Part],
    extent: tuple[int, int],
    magnitude: float,
    evidence: dict[str, object],
) -> Suspect:
    """The suspect of which the ``best`` parts are the culprit, or one of them."""
    kind, name, cause, sure = _verdict(context, best, job)
    if len(best) > 1:
        named = [culprit_of(context, part.name) for part in best]
        evidence["one_of"] = list(dict.fromkeys(name for _, name, _ in named))
        evidence["or_causes"] = sorted({other for _, _, other in named} - {cause})
    return Suspect(
        job, "network", "slow_transfers", cause, kind, name, *extent, magnitude, sure, evidence
    )


def _verdict(context: Context, best: Sequence[Part], job: JobView) -> tuple[str, str, str, float]:
    """Kind and name of the culprit, the cause, and the confidence."""
    if not best:
        return "job", job.name, "slow_network", 0.5
    kind, name, cause = culprit_of(context, best[0].name)
    equal = len({culprit_of(context, part.name)[1] for part in best})
    sure = best[0].score * min(1.0, 0.6 + 0.1 * best[0].slow) / equal**0.5
    return kind, name, cause, round(min(0.99, sure), 4)


def _healthy_ratio(bundles: Sequence[Bundle]) -> float:
    """The pace of transfers that nothing makes slow; 1 if there are none."""
    values = [one.ratio for one in bundles if not (one.slow or one.paced)]
    return float(np.median(values)) if values else 1.0


def _described(part: Part) -> dict[str, object]:
    return {
        "name": part.name,
        "coverage": round(part.coverage, 3),
        "purity": round(part.purity, 3),
        "slow": part.slow,
    }

"""NICs, links and switches that carry less than they should: slow transfers, and what they lost.

Paces show which transfers are slow, and so which part of the network explains them. The time that
transfers lost on the wire (:mod:`~.wire_time`) shows how much each of them delayed the job, also
where one message stalled and the others did not. The part that paces show is named unless it
explains clearly less of the lost time than another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from llmprism.methods.prism.faults.causes.slow_parts import LASTING, MOSTLY, by_pace, lost_by_time
from llmprism.methods.prism.faults.causes.slow_together import slow_together
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.bundles import (
    LEAST_SHARE,
    NEARER,
    Bundle,
    bundles_of,
    waiting,
)
from llmprism.methods.prism.faults.measures.hops import culprit_of
from llmprism.methods.prism.faults.measures.rates import Rates, rates_of
from llmprism.methods.prism.faults.measures.saving import saving
from llmprism.methods.prism.faults.measures.series import SHORTEST, stretches
from llmprism.methods.prism.faults.measures.wire_time import (
    Costs,
    LostTime,
    explained,
    heaviest,
    lost_in,
    windows_of,
)
from llmprism.methods.prism.faults.suspects.cost import cost_of, healthy_share
from llmprism.methods.prism.faults.suspects.irregular import irregular
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.missing import nanmedian

STEADY = 0.75  # share of the steps in which a slow link or switch delays some transfer
GOOD_PART = 1 / 3  # of all transfers: so many do not stall because of one part of the network
OR_A_RANK = 0.5**0.5  # of the confidence: another explanation is as good


def slow_network(context: Context) -> Iterator[Suspect]:
    """Bring forward the parts of the network that explain slow transfers.

    First those that the lost time shows, then those that paces alone show in other steps.
    """
    measured = [(job, rates_of(context, job)) for job in context.jobs]
    together = [
        _with_others(context, rates, one)
        for one, rates in slow_together(context, measured)
        if not _by_saving(context, one)
    ]
    for job, rates in measured:
        found = [one for one in together if one.job is job]
        costs = partial(_costs, job)
        windows = ((True, windows_of(rates, costs)), (False, _windows(rates, costs)))
        for by_time, extents in windows:
            for first, last in extents:
                if all(last < one.first or first > one.last for one in found if one.is_believed):
                    one = _in_stretch(context, measured, job, (first, last), by_time=by_time)
                    if one and not (_by_saving(context, one) or _by_waits(rates, one)):
                        found.append(one)
        yield from found


def _costs(job: JobView, first: int, last: int) -> bool:
    """Whether ``job`` is slower from one step to another one."""
    return cost_of(job, first, last).believed


def _by_saving(context: Context, one: Suspect) -> bool:
    """Whether a checkpoint explains it, which NICs send in all of the steps, and not in all others.

    One of the NICs that may be slow, or most of those of the job if a link or switch may be.
    """
    codes = context.topology.codes
    ends = [codes[name] for name in one.names if name in codes]
    saves, own = saving(context, one.job), one.job.phases.endpoints
    if ends:
        return bool(saves[ends, one.first : one.last + 1].all(axis=1).any())
    in_all = saves[own, one.first : one.last + 1].all(axis=1).mean() > MOSTLY
    return bool(in_all and not saves[own, : one.job.count].all(axis=1).any())


def _by_waits(rates: Rates, one: Suspect) -> bool:
    """Whether transfers that wait look slow: through a link or switch, and often at full pace.

    Steps last longer by different amounts, as they do where work is unevenly divided. What makes a
    link slow delays the transfers of every step; if it loses packets, by different amounts. A slow
    switch delays many transfers of every step, together by as much in one as in another.
    """
    if one.culprit_kind not in {"link", "switch"} or not irregular(one.job, one.first, one.last):
        return False
    if one.culprit_kind == "switch":
        return True
    across = [any(one.culprit in part for part in crossed) for crossed in rates.crosses]
    out = rates.pace.out[np.array(across, bool), one.first : one.last + 1]
    return bool(out.any(axis=0).mean() < STEADY)


def _in_stretch(
    context: Context,
    measured: Sequence[tuple[JobView, Rates]],
    job: JobView,
    extent: tuple[int, int],
    *,
    by_time: bool,
) -> Suspect | None:
    """What explains a stretch of slow steps: ``by_time`` that is lost, or by paces alone."""
    inside = int(job.start_ns[extent[0]]), int(job.end_ns[extent[1]])
    bundles: list[Bundle] = []
    lost: list[LostTime] = []
    for other, rates in sorted(measured, key=lambda one: one[0] is not job):
        steps = extent if other is job else _steps_within(other, inside)
        if steps is not None:
            bundles += bundles_of(rates, *steps)
            lost.append(lost_in(rates, *steps))
    parts = explained(lost)
    best, suspect = by_pace(context, job, bundles, extent, lost, parts)
    if by_time:
        slowest = suspect.evidence["suspects"][0]["name"] if suspect else ""
        better = lost_by_time(context, job, lost[0], parts, extent, best, slowest)
        score = {part.name: part.score for part in parts}
        if better is not None or score.get(best, 0.0) < MOSTLY:
            better = better and _or_a_rank(better, lost[1:])
            return better and _with_others(context, lost[0].rates, better)
    if suspect is None or (not best and extent[1] - extent[0] + 1 < LASTING):
        return None
    suspect = replace(suspect, lost_share=_most_delayed(bundles, lost[0], best, healthy_share(job)))
    begin, end = _narrowed(rates_of(context, job), best, *extent)
    if end - begin + 1 < SHORTEST:
        return None
    return _with_others(context, lost[0].rates, replace(suspect, first=begin, last=end))


def _with_others(context: Context, rates: Rates, one: Suspect) -> Suspect:
    """``one`` with what other transfers of its job show in the same steps."""
    one = _with_hops(context, rates, one)
    if one.job.pipelines.length == 1:
        return one  # all wait for a late rank there, so its own collectives are short
    ratio = one.evidence.get("pace_ratio") or one.evidence.get("time_ratio", 1.0)
    return replace(one, as_ever=_as_ever(context, rates, one, ratio))


def _as_ever(context: Context, rates: Rates, one: Suspect, ratio: float) -> frozenset[str]:
    """Addresses all of whose collectives are nearer to health than to ``ratio``, and their servers.

    ``ratio`` is that of the slow transfers.
    """
    inside = slice(one.first, one.last + 1)
    took = np.fmax(
        nanmedian(rates.pace.ratio[:, inside], axis=1), nanmedian(rates.busy[:, inside], axis=1)
    )
    fast, slow = set[str](), set[str]()
    for kind, crossed, value in zip(rates.kind, rates.crosses, took.tolist(), strict=True):
        if kind == "dp" and np.isfinite(value):
            ends = {part for part in crossed if part in context.topology.codes}
            (fast if np.log(value) < NEARER * np.log(ratio) else slow).update(ends)
    codes, endpoints = context.topology.codes, context.topology.endpoints
    return frozenset(fast - slow) | {endpoints[codes[end]].server for end in fast - slow}


def _or_a_rank(one: Suspect, others: Sequence[LostTime]) -> Suspect:
    """``one`` with less confidence if its transfers may as well have waited for a late rank.

    A good part of those of its job last longer, and none of ``others``, those of other jobs.
    """
    part = one.evidence["suspects"][0]["name"]
    if one.evidence["slow_bundles"] <= GOOD_PART * one.evidence["bundles"]:
        return one
    if any(part in other.crossed for other in others):
        return one
    return replace(one, confidence=OR_A_RANK * one.confidence)


def _with_hops(context: Context, rates: Rates, one: Suspect) -> Suspect:
    """``one`` with the number of hops that end before one across it, in the same ring.

    They waited for it. If a rank is late instead, all hops end as they usually do.
    """
    names = {str(part["name"]) for part in one.evidence.get("suspects", ())}
    parts = {name for name in names if culprit_of(context, name)[1] == one.culprit}
    waits = waiting(rates, one.first, one.last)
    across = np.array([not parts.isdisjoint(crossed) for crossed in rates.crosses], np.bool_)
    rings = rates.group[across & ~waits & (rates.group >= 0)]
    number = int((waits & np.isin(rates.group, rings)).sum())
    return replace(one, evidence={**one.evidence, "waiting_hops": number}) if number else one


def _most_delayed(
    bundles: Sequence[Bundle], lost: LostTime, part: str, healthy_step: float
) -> float:
    """How much longer slow transfers can make a step at most, as a share of the usual one.

    A step has no more transfers than fill it; ``healthy_step`` is the share of a usual one that a
    healthy one is. Messages of a pipeline delay it by no more than they last longer, all together.
    """
    slow = [one for one in bundles if one.slow]
    most = (max(one.ratio for one in slow) - 1) * healthy_step
    passes = bool(part) and all(one.kind == "pp" for one in slow)
    passed = lost.sum_across(part) if passes else None
    return most if passed is None else min(most, passed)


def _windows(rates: Rates, costs: Costs) -> list[tuple[int, int]]:
    """Stretches in which a connection is slow: the heaviest, without those that overlap one."""
    weighed = []
    for ratio, out in zip(rates.pace.ratio, rates.pace.lasting, strict=True):
        for first, last in stretches(out):
            excess = np.log(ratio[first : last + 1])
            weighed.append((-round(float(np.nansum(excess)), 6), first, last))
    return heaviest(weighed, costs)


def _steps_within(job: JobView, extent: tuple[int, int]) -> tuple[int, int] | None:
    """First and last step of ``job`` that lie within a time; None if there are none."""
    inside = np.flatnonzero((job.start_ns >= extent[0]) & (job.end_ns <= extent[1]))
    return (int(inside[0]), int(inside[-1])) if inside.size else None


def _narrowed(rates: Rates, part: str, first: int, last: int) -> tuple[int, int]:
    """The steps of a stretch in which most of what is slow across ``part`` is slow."""
    out = rates.pace.out[:, first : last + 1]
    across = [part in crossed for crossed in rates.crosses]
    rows = out[np.array(across, bool) & (out.mean(axis=1) >= LEAST_SHARE)]
    at = np.flatnonzero(rows.mean(axis=0) > LEAST_SHARE) if len(rows) else np.arange(0)
    return (first + int(at[0]), first + int(at[-1])) if at.size else (first, last)

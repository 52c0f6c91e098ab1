"""Findings: sparse deviations of the table of durations.

Every kind of culprit (:mod:`~llmprism.methods.prism.groups`) makes groups of rows, each with a
series of its excess. The group and the window with the largest likelihood above its penalty come
first. It is a finding if the steps of the window are longer, and if the group itself lost a good
part of that on the critical path: what waits for others loses nothing there. Its rows are then
explained in its steps, and the search goes on, until nothing exceeds its penalty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.tables import DIAGNOSIS
from llmprism.methods.prism import explanation
from llmprism.methods.prism.baseline import spread
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.durations import COMPUTE, TRANSFER, WORK, Durations, durations_of
from llmprism.methods.prism.groups import KINDS
from llmprism.methods.prism.groups.base import Group, Named, Namer, rows_of
from llmprism.methods.prism.groups.network import SYMPTOM
from llmprism.methods.prism.groups.ranks import whole_job
from llmprism.methods.prism.outside import Outside, outside_of
from llmprism.methods.prism.outside.crowding import is_crowded
from llmprism.methods.prism.parameters import (
    ALWAYS_SURE,
    AS_LIKELY,
    FEWEST,
    LEAST_COST,
    MOST_FINDINGS,
    NOISE_FLOOR,
    OWN_SHARE,
    WARM_UP,
)
from llmprism.methods.prism.peers import standing
from llmprism.methods.prism.shared import with_other_jobs
from llmprism.methods.prism.stages import long_stages
from llmprism.methods.prism.windows import (
    MOSTLY,
    SHAPE,
    Window,
    best_window,
    fading,
    gain_of_rows,
    gain_within,
    joint_window,
    penalty,
)
from llmprism.numerics.arrays import Bools, Floats
from llmprism.numerics.missing import nanmedian
from prism_common.threads import both


@dataclass(frozen=True)
class Cost(explanation.Cost):
    """What a window costs its job.

    Attributes
    ----------
    own_ns : what the culprit itself lost of ``lost_ns`` on the critical path.
    own_share : its share of what most steps of the window are longer by, as far as it is known who
        lost that.
    """

    own_ns: float
    own_share: float


@dataclass(frozen=True)
class Candidate:
    """A group and its best window; ``odds`` are log odds that it is no chance.

    ``open_steps`` are those that no candidate before it explains.
    """

    durations: Durations
    group: Group
    window: Window
    odds: float
    open_steps: Bools

    @cached_property
    def cost(self) -> Cost:
        """What the window costs the job."""
        return cost_of(self)

    @property
    def explains_ns(self) -> Floats:
        """What it explains of the length of each step [ns]."""
        inside = self.window.steps(self.durations.steps)
        return np.where(inside, np.maximum(self.group.lost_ns, 0.0), 0.0)


@dataclass(frozen=True)
class Finding:
    """One culprit in one window of one job; ``odds`` are log odds that it is no chance."""

    job: JobView
    named: Named
    window: Window
    cost: Cost
    odds: float

    @property
    def confidence(self) -> float:
        """Chance that the finding is true and names the culprit."""
        return float((1 - np.exp(-max(self.odds, 0.0)) / 2) * self.named.sure)


def find_findings(context: Context) -> pd.DataFrame:
    """All findings about the jobs of ``context``, in order of time."""
    outside, measured = both(
        lambda: outside_of(context), lambda: [durations_of(context, job) for job in context.jobs]
    )
    rows = list(outside.stops())
    every = [durations for durations in measured if durations is not None]
    for durations in every:
        job, others = durations.job, [other for other in every if other is not durations]
        for one in findings_of(durations, outside):
            shares = one.named.symptom == SYMPTOM and is_crowded(durations, one.window)
            if not shares and not outside.explains(job, one.named, one.window):
                named = with_other_jobs(one.named, one.window, durations, others)
                rows.append(row_of(replace(one, named=named)))
    rows += [row for job in context.jobs for row in outside.saves(job)]
    rows.sort(key=lambda row: (row["start_ns"], row["job"], row["culprit"]))
    table = pd.DataFrame(rows, columns=DIAGNOSIS["findings"].names)
    return table.assign(finding=range(len(table)))


def findings_of(durations: Durations, outside: Outside) -> list[Finding]:
    """The findings about one job, the likeliest first."""
    found: list[Finding] = []
    if durations.steps < FEWEST:
        return found
    for one in _candidates(durations):
        named = one.group.named(one.durations, one.window)
        if named is not None:
            named = outside.instead_of(durations.job, named, one.window)
            found = _joined(found, Finding(durations.job, named, one.window, one.cost, one.odds))
        if len(found) == MOST_FINDINGS:
            break
    always = list(_standing(durations, found))
    names = {one.named.name for one in always}
    return [*(one for one in found if one.named.name not in names), *always]


def _standing(durations: Durations, found: list[Finding]) -> Iterator[Finding]:
    """What is slow in every step, unless it loses more in those in which it was ``found``."""
    rest = durations.reference.kind == 0
    for known in found:
        rest &= ~known.window.steps(durations.steps)
    if rest.sum() < FEWEST:
        return
    durations = durations if rest.all() else durations.only_beside(rest)
    length = durations.length_ns[np.isfinite(durations.length_ns)]
    costs = {known.named.name: known.cost.lost_ns for known in found}
    for one in (*standing(durations), *long_stages(durations)):
        slow_ns = float(length.mean()) if length.size else 0.0
        normal_ns = slow_ns - one.own_ns / durations.steps
        cost = Cost(normal_ns, slow_ns, one.own_ns, one.odds, one.own_ns, 1.0)
        is_most = one.own_ns > costs.get(one.named.name, 0.0)
        if one.odds > 0 and cost.share > LEAST_COST and is_most:
            named = replace(one.named, sure=one.named.sure * ALWAYS_SURE)
            yield Finding(durations.job, named, one.window, cost, one.odds)


def _candidates(durations: Durations) -> Iterator[Candidate]:
    """Groups with their best windows, until none exceeds its penalty; each explains its rows.

    Where most steps are slow, the search begins again, compared with the others. Of two that lose
    time in the same steps one has less than it needs alone: it is tried again when the other is
    explained, and needs half.
    """
    warm = _warm_up(durations)
    left, rebased = durations.without(warm), False
    outweighed: list[Candidate] = []
    rejected: set[Namer] = set()
    open_steps = np.isfinite(durations.length_ns) & ~warm
    unexplained = open_steps
    for _ in range(4 * MOST_FINDINGS):
        groups = [one for of in KINDS.values() for one in of(left) if one.named not in rejected]
        best = _likeliest(left, groups, open_steps) or _longest(left, groups, open_steps)
        if best is None:
            break
        inside = best.window.steps(durations.steps)
        is_most = best.window.shape == MOSTLY and best.cost.share > LEAST_COST
        if is_most and not rebased and not inside.all():
            left, rebased = left.compared_with(~inside), True
            continue
        if not _is_believed(best.cost) and best.group.table == TRANSFER:
            best = _longest(left, [best.group], unexplained) or best  # in steps that are longer
            inside = best.window.steps(durations.steps)
        if not _is_believed(best.cost) and best.group.is_whole:
            rejected.add(best.group.named)  # what it has in common says nothing of its parts
            continue
        open_steps = open_steps & ~inside
        if _is_believed(best.cost):
            yield best
            rejected.clear()
            unexplained = unexplained & ~inside
            left = left.shortened(best.explains_ns)
            if best.group.table == COMPUTE:
                left = left.lost_by(best.group.rows, inside)
            if best.group.table == WORK:
                left = left.without(inside)
                continue
        elif best.group.is_part:
            outweighed.append(best)
        left = left.explained(best.group.table, best.group.rows, inside)
    for one in outweighed:
        again = replace(one, durations=one.durations.shortened(left.explained_ns))
        if _is_believed(again.cost, OWN_SHARE / 2):
            left = left.shortened(again.explains_ns)
            yield again


def _warm_up(durations: Durations) -> Bools:
    """The steps with which an attempt begins, if all of the job is slow in them, shape (steps,).

    For as long as it is less slow in every step, or for a few steps if all ranks are.
    """
    warm = np.zeros(durations.steps, np.bool_)
    firsts = durations.job.phases.first_of_epoch
    transfers = durations.transfer.excess.copy()
    transfers[:, firsts] = np.nan
    together = nanmedian(transfers.T, axis=1)
    error = float(np.median(durations.transfer.error)) if len(transfers) else NOISE_FLOOR
    series = [(group.excess, group.error) for group in whole_job(durations)]
    for first in firsts.tolist():
        for excess, noise in series:
            window = best_window(excess[first : first + WARM_UP], noise)
            warm[first : first + WARM_UP] |= window.shape != MOSTLY and window.ratio > SHAPE
        for excess, noise in (*series, (together, error)):
            warm[first : first + fading(excess[first : first + 2 * WARM_UP], noise)] = True
    return warm


def _likeliest(
    durations: Durations, groups: Sequence[Group], open_steps: Bools
) -> Candidate | None:
    """The group and window that exceed their penalty by most; None if none does."""
    every = [_tried(durations, group, open_steps) for group in groups]
    best = max(every, key=lambda one: one.odds, default=None)
    if best is None or best.odds <= 0:
        return None
    joint = [
        replace(one, window=joint_window(*rows_of(durations, one.group)))
        for one in every
        if one.group.is_part and _overlap(one, best)
    ]
    found = max(joint, key=lambda one: one.window.ratio) if best.group.is_part else best
    return replace(found, odds=max(found.odds, best.odds))


def _tried(durations: Durations, group: Group, open_steps: Bools) -> Candidate:
    """A group with the window that is likeliest for it."""
    window = group.found or best_window(group.excess, group.error)
    odds = window.ratio - penalty(len(KINDS) * group.siblings, durations.steps)
    return Candidate(durations, group, window, odds, open_steps)


def _overlap(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates have a rank and a step in common.

    A rank, server or stage says that all of its rows are slow by one level. So what explains most
    is the smallest that has all slow rows, and the largest that has no others.
    """
    first, second = one.window, other.window
    steps = first.first <= second.last and second.first <= first.last
    return steps and bool(np.isin(one.group.rows, other.group.rows).any())


def _longest(durations: Durations, groups: Sequence[Group], open_steps: Bools) -> Candidate | None:
    """A window of ``open_steps`` that are longer for certain, and the group that explains it best.

    That something happened follows from the steps. So the group only has to be likelier than its
    siblings, which is less than it needs by itself.
    """
    if open_steps.sum() < FEWEST:
        return None
    length = durations.left_ns / max(durations.usual_ns, 1.0) - 1
    noise = float(np.nan_to_num(spread(length[None])[0]))
    shown = np.where(open_steps, length, np.nan)
    window = best_window(shown, max(noise, NOISE_FLOOR, durations.tick_ns / durations.usual_ns))
    odds = window.ratio - penalty(1, durations.steps)
    if odds <= 0:
        return None
    hit = window.hit(durations.steps)
    gains = [
        gain_within(group.excess, group.error, hit) - float(np.log(group.siblings))
        for group in groups
    ]
    best = int(np.argmax(gains)) if gains else -1
    if best < 0 or gains[best] <= AS_LIKELY:
        return None
    if groups[best].is_part:
        parts = [group for group in groups if group.is_part]
        joint = [gain_of_rows(*rows_of(durations, one), hit) for one in parts]
        return Candidate(durations, parts[int(np.argmax(joint))], window, odds, open_steps)
    return Candidate(durations, groups[best], window, odds, open_steps)


def cost_of(candidate: Candidate) -> Cost:
    """Compare the steps of a window with the others."""
    durations, group = candidate.durations, candidate.group
    within = candidate.window.steps(durations.steps)
    hit = candidate.window.hit(durations.steps)
    inside = within & candidate.open_steps if (hit & candidate.open_steps).any() else hit
    length = durations.left_ns
    slow, normal = length[inside], length[~within]
    slow, normal = slow[np.isfinite(slow)], normal[np.isfinite(normal)]
    own_ns = float(group.lost_ns[inside].sum())
    if not slow.size or not normal.size:
        return Cost(0.0, 0.0, 0.0, 0.0, own_ns, 0.0)
    usual_ns, slow_ns = float(np.median(normal)), float(slow.mean())
    noise = max(float(np.nan_to_num(spread(length[None])[0])), durations.tick_ns, 1.0)
    hit &= inside & np.isfinite(length)
    longer_ns = float(np.median(durations.length_ns[hit])) - usual_ns if hit.any() else 0.0
    unknown_ns = float(np.median(durations.on_path.unknown_ns[hit])) if hit.any() else 0.0
    longer_ns = max(longer_ns - max(unknown_ns, 0.0), OWN_SHARE * longer_ns)
    left_ns = float(length[hit].mean()) - usual_ns if hit.any() else 0.0
    deviations = left_ns / noise * np.sqrt(hit.sum())
    most_ns = float(np.median(group.lost_ns[hit])) if hit.any() else 0.0
    own_share = most_ns / longer_ns if min(most_ns, longer_ns) > LEAST_COST * usual_ns else 0.0
    lost_ns = (slow_ns - usual_ns) * slow.size
    return Cost(usual_ns, slow_ns, lost_ns, float(deviations), own_ns, own_share)


def _is_believed(cost: Cost, least: float = OWN_SHARE) -> bool:
    """Whether the job is slower in a window, and the culprit itself lost a good part of that."""
    return cost.share > LEAST_COST and cost.deviations > 2.0 and cost.own_share > least


def _joined(found: list[Finding], new: Finding) -> list[Finding]:
    """``found`` with ``new``; windows of one culprit that are close together are one finding."""
    for at, old in enumerate(found):
        gap = max(new.window.first - old.window.last, old.window.first - new.window.last) - 1
        lasting = max(w.last - w.first + 1 for w in (old.window, new.window))
        if old.named.name == new.named.name and gap <= max(lasting, 3):
            first = min(old.window.first, new.window.first)
            last = max(old.window.last, new.window.last)
            window = Window(first, last, old.window.level, old.window.ratio, old.window.shape)
            steps = last - first + 1
            both = old.cost.lost_ns, new.cost.lost_ns
            lost = max(both) if gap < 0 else sum(both)  # what is left of the same steps is in both
            slow_ns, own_ns = old.cost.normal_ns + lost / steps, old.cost.own_ns + new.cost.own_ns
            cost = replace(old.cost, slow_ns=slow_ns, lost_ns=lost, own_ns=own_ns)
            joined = Finding(old.job, old.named, window, cost, max(old.odds, new.odds))
            return [*found[:at], joined, *found[at + 1 :]]
    return [*found, new]


def row_of(finding: Finding) -> dict[str, Any]:
    """The row of a finding in its table."""
    window, cost, named = finding.window, finding.cost, finding.named
    lost = cost.own_ns / max(cost.normal_ns, 1.0) / (window.last - window.first + 1)
    evidence = {
        **named.evidence,
        "lost_share_of_a_step": round(lost, 4),
        "log_odds": round(finding.odds, 1),
    }
    if window.spared:
        evidence["steps"] = np.flatnonzero(window.hit(window.last + 1)).tolist()
    known = explanation.Explanation(
        finding.job, named.level, named.symptom, named.cause, named.kind, named.name,
        window.first, window.last, window.level / (1 + window.level), finding.confidence, evidence,
    )  # fmt: skip
    return explanation.row_of(known, cost)

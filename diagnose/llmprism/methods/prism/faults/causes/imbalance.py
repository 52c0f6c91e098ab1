"""Work that is unevenly divided, by chance and in every step differently: nobody is slow.

Two imbalances show in the bytes. Where sequences differ in length, so do the bytes of pipelines.
Where experts are not equally popular, so do the exchanges between them. In both the ranks that
are late change from step to step. Without a pipeline and without experts only the lateness is
seen: it is spread wider than before, over ranks that change, and the cause may be either.

Experts that the ranks of one server share exchange nothing in sight, and these ranks wait for each
other in every layer. Then all groups are late, by about as much. What shows that their work is
divided again is how collectives begin (:mod:`~.begins`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.lateness.own_time import lost_share
from llmprism.methods.prism.faults.measures.begins import vary_more
from llmprism.methods.prism.faults.measures.series import (
    DEVIATIONS,
    ENOUGH,
    FEWEST,
    OF_MEDIAN,
    levels_of,
    stretches,
)
from llmprism.methods.prism.faults.suspects.suspects import OWN_PART, Suspect
from llmprism.methods.prism.pipelines.micro_batches import usual_size
from llmprism.methods.prism.records.sampled import ERRORS, deviation
from llmprism.numerics.arrays import Codes, Floats, Ints
from llmprism.numerics.missing import finite_median, nanmedian

IN_TURNS = "late_in_turns"
WIDER = 0.02  # by which bytes are spread more than in healthy steps at least
APART = 0.05  # ... and ranks, of a step
QUIET = 0.2  # share of the steps whose spread is taken to be healthy
QUIET_TO_SIGMA = 2.79  # that quantile of the difference of two normal values to a deviation
MEAN_OF_MEDIAN = 1.183  # mean over median distance of normal values: sqrt(2 / pi) / 0.6745
WHOLE = 0.002  # of a message: distance from a whole number of messages that counts as none
SEVERAL = 3  # ranks that take turns in being last; fewer are slow themselves
NEARLY_ALL = 0.9  # of the steps: so many have the last rank in one server
BYTES = {"pp": "length_imbalance", "ep": "expert_imbalance"}
OTHER = {"length_imbalance": "expert_imbalance", "expert_imbalance": "length_imbalance"}
UNLIKE = 0.8  # of the bytes to one partner: as little to another one is for other parameters
SEEN, GUESSED = 0.9, 0.5  # confidence with and without evidence in the bytes


def imbalance(context: Context) -> Iterator[Suspect]:
    """Bring forward jobs whose work becomes unevenly divided."""
    for job in context.jobs:
        found = False
        for kind, cause in BYTES.items():
            spread = size_spread(context, job, kind)
            for steps in _wider(spread, WIDER, by_chance(context, job, kind)):
                found = True
                yield _suspect(job, "unequal_bytes", cause, steps, spread, SEEN)
        lost = lost_share(context, job, cautious=True)
        if not found and lost is not None and np.isfinite(lost).any():
            yield from _by_lateness(
                job, lost, likelier_imbalance(context, job), _groups(context, job)
            )


def likelier_imbalance(context: Context, job: JobView) -> str:
    """Which imbalance it is, where only the lengths of steps show one.

    Experts are shared by fewer replicas than all other parameters. So most ranks reduce gradients
    of two sizes in two groups, and send to several others, to each as much as its group needs.
    """
    parts = [part for part in job.phases.classes if part.kind == "dp"]
    rows = np.concatenate([np.empty(0, np.int64), *(part.one.traffic.row for part in parts)])
    if not rows.size:
        return "length_imbalance"
    own, at = np.unique(context.connections.of_row[rows], return_inverse=True)
    src = context.connections.src[own]
    volume = np.bincount(at.ravel(), context.connections.size[rows].astype(np.float64))
    two = [
        float(volume[src == end].min()) < UNLIKE * float(volume[src == end].max())
        for end in np.unique(src).tolist()
    ]
    return "expert_imbalance" if np.mean(two) > 0.5 else "length_imbalance"


def divided_again(context: Context, job: JobView, first: int, last: int) -> bool:
    """Whether a job has experts whose load changes in each of the steps ``first`` to ``last``."""
    has_experts = likelier_imbalance(context, job) == "expert_imbalance"
    return has_experts and vary_more(context, job, first, last)


def by_experts(context: Context, one: Suspect) -> Suspect:
    """``one``, a stage, as the imbalance of experts that it is if their load changes in each step.

    More layers make a stage slower by as much in each step.
    """
    if one.culprit_kind != "stage" or not divided_again(context, one.job, one.first, one.last):
        return one
    evidence = {**one.evidence, "one_of": [one.job.name, one.culprit], "or_causes": [one.cause]}
    return replace(
        one, symptom=IN_TURNS, cause="expert_imbalance", culprit_kind="job", culprit=one.job.name,
        confidence=min(one.confidence, GUESSED), evidence=evidence,
    )  # fmt: skip


def size_spread(context: Context, job: JobView, kind: str) -> Floats:
    """How much the bytes that connections move in a step differ, relative to their median.

    Messages may be cut into records, or joined, in any way. One that was counted to another step
    makes a whole message of difference, and no longer sequence does. Where sequences differ in
    length, so do most connections of a pipeline; lost records concern few of them. One popular
    expert makes few exchanges larger.
    """
    typical = _typical if kind == "pp" else np.mean
    values = np.full(job.count, np.nan)
    parts = [part for part in job.phases.classes if part.kind == kind]
    if not parts:
        return values
    size = np.vstack([_without_strays(context, job, part) for part in parts])
    for one in range(job.count):
        own = size[size[:, one] > 0, one]
        if own.size > 1:
            middle = float(np.median(own))
            values[one] = float(typical(np.abs(own - middle))) / middle
    return values


def by_chance(context: Context, job: JobView, kind: str) -> float:
    """By how much spreads of sampled bytes differ by chance; 0 where every packet was observed.

    The spread of n estimates of equal bytes has a deviation of about theirs over the root of n.
    """
    per_sample = context.connections.sample_bytes
    parts = [part for part in job.phases.classes if part.kind == kind]
    if not per_sample or not parts:
        return 0.0
    size = np.vstack([part.volumes(context.connections, job.count) for part in parts])
    usual = float(np.median(size[size > 0])) if size.any() else 1.0
    return float(ERRORS * deviation(usual, per_sample) / usual / np.sqrt(len(size)))


def _typical(away: Floats) -> Floats:
    """The mean distance from the middle, from the median one: as it is of normal values."""
    return np.asarray(MEAN_OF_MEDIAN * np.median(away))


def _without_strays(context: Context, job: JobView, part: KindOf) -> Floats:
    """Bytes of each connection and step; whole messages more or fewer than usual do not count."""
    volumes = part.volumes(context.connections, job.count)
    held = volumes / usual_size(part.one.traffic.size)
    usual = np.median(held, axis=1, keepdims=True)
    stray = (np.abs(held - np.rint(held)) <= WHOLE) & (np.abs(usual - np.rint(usual)) <= WHOLE)
    stray &= (volumes > 0) & (np.rint(held) != np.rint(usual))
    return np.where(stray, np.median(volumes, axis=1, keepdims=True), volumes)


def _wider(spread: Floats, least: float, chance: float = 0.0) -> list[Ints]:
    """Stretches in which bytes or ranks are spread more: the steps in which they are.

    A spread that is wide varies itself, so the noise is that of the quieter steps: a fifth of them,
    as work may be uneven for three quarters. ``chance`` is by how much single spreads may differ;
    what is too little in one step shows in several.
    """
    known = spread[np.isfinite(spread)]
    if known.size < FEWEST:
        return []
    noise = QUIET_TO_SIGMA * float(np.quantile(np.abs(np.diff(known)), QUIET))
    excess = np.nan_to_num(spread, nan=0.0) - float(np.quantile(known, QUIET))
    bar = max(DEVIATIONS * noise, chance)
    out = excess > max(bar, least)
    of_level = max(OF_MEDIAN * bar, least)
    out |= (levels_of(excess[None])[0] > of_level) & (excess > of_level)
    found = [first + np.flatnonzero(out[first : last + 1]) for first, last in stretches(out)]
    return [steps for steps in found if steps[-1] - steps[0] + 1 >= ENOUGH]


def _groups(context: Context, job: JobView) -> list[Codes]:
    """The server and the stage of each rank."""
    servers = context.topology.servers[job.phases.endpoints]
    return [servers, job.pipelines.stage.astype(servers.dtype)]


def _by_lateness(
    job: JobView, lost: Floats, cause: str, groups: Sequence[Codes]
) -> Iterator[Suspect]:
    """Stretches in which the rank that loses most loses more than the middle one by more.

    ``groups`` are those that the ranks are in. Steps are longer by what the last rank loses more
    than in others; the middle one may lose a part of that as well.
    """
    most = np.nanmax(np.where(np.isnan(lost), -np.inf, lost), axis=0)
    spread = most - nanmedian(lost, axis=0)
    spread = np.where(np.isfinite(spread), np.maximum(spread, 0.0), np.nan)
    for steps in _wider(spread, APART):
        if _taking_turns(lost, groups, steps):
            one = _suspect(job, IN_TURNS, cause, steps, spread, GUESSED)
            own = np.arange(one.first, one.last + 1)
            more = finite_median(most[own]) - finite_median(np.delete(most, own))
            yield replace(one, lost_share=more)


def late_in_turns(context: Context, job: JobView, stretch: tuple[int, int], longer: float) -> bool:
    """Whether several ranks in turn lose about half of what the steps of a stretch take ``longer``.

    That is a share of a step.
    """
    lost = lost_share(context, job, cautious=True)
    if lost is None or not np.isfinite(lost).any():
        return False
    steps = np.arange(stretch[0], stretch[1] + 1)
    most = np.max(np.nan_to_num(lost), axis=0)
    more = float(np.median(most[steps]) - np.median(np.delete(most, steps)))
    return more >= OWN_PART * longer and _taking_turns(lost, _groups(context, job), steps)


def _taking_turns(lost: Floats, groups: Sequence[Codes], steps: Ints) -> bool:
    """Whether several ranks are the last one in some of ``steps``, none of them in most.

    Two ranks that are late in one step each are so by chance. Where nearly all of them are ranks of
    one of several servers, or stages, that is late.
    """
    last = np.argmax(np.where(np.isnan(lost), -np.inf, lost)[:, steps], axis=0)
    times = np.unique(last, return_counts=True)[1]
    most = [
        np.unique(group[last], return_counts=True)[1].max()
        for group in groups
        if np.unique(group).size > 1
    ]
    in_one = max(most, default=0) >= NEARLY_ALL * steps.size
    return bool(times.size >= SEVERAL and times.max() <= steps.size / 2 and not in_one)


def _suspect(
    job: JobView, symptom: str, cause: str, steps: Ints, spread: Floats, sure: float
) -> Suspect:
    first, last = int(steps[0]), int(steps[-1])
    inside = float(np.nanmedian(spread[first : last + 1]))
    return Suspect(
        job, "group", symptom, cause, "job", job.name, first, last, min(1.0, inside), sure,
        {"spread": round(inside, 4), "or_causes": [OTHER[cause]] if sure == GUESSED else []},
    )  # fmt: skip

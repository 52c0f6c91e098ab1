"""The search: which steps are longer than normal, and which culprit lost what they are longer by.

Every hypothesis has a series of losses, and a window in which they are likeliest to be no chance.
The likeliest window of all is judged: each hypothesis says what it lost in those steps, and the
nearer that is to what the steps are longer by, the likelier it is. What the culprit lost is then
explained, and the search goes on with what is left, until nothing exceeds its penalty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from llmprism.methods.prism.culprits import KINDS
from llmprism.methods.prism.culprits.base import Attribution, Hypothesis, Lost, Rival, Scene
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.parameters import (
    AS_LIKELY,
    FEWEST,
    FITS,
    HALF,
    LEAST_COST,
    MOST_FINDINGS,
    QUARTER,
    SMALL,
    WARM_UP,
)
from llmprism.methods.prism.windows import (
    LEVEL,
    Window,
    best_window,
    fading,
    log_density,
    penalty,
)
from llmprism.numerics.arrays import Bools, Floats

UNNAMED = ("imbalance", "unexplained")  # kinds that name no culprit
WHOLE = ("job", *UNNAMED)  # kinds that need not be the same in all steps


@dataclass(frozen=True)
class LocatedCulprit:
    """One culprit in one window of a job.

    Attributes
    ----------
    attribution : its name and cause.
    scene : the window, and what else was likely.
    lost_ns : what the steps of the window are longer by [ns].
    own_ns : what the culprit lost of that [ns].
    odds : log odds that the window is no chance.
    share : of the posterior, for the culprit and all that names the same place; 1 where the finding
        is no more than that the job is slow.
    """

    attribution: Attribution
    scene: Scene
    lost_ns: float
    own_ns: float
    odds: float
    share: float

    @property
    def chance(self) -> float:
        """Chance that the window is none by chance, and that its culprit is the right one.

        How sure the name of a culprit is comes in addition.
        """
        return float((1 - np.exp(-max(self.odds, 0.0)) / 2) * self.share)


def search(durations: Durations) -> Iterator[LocatedCulprit]:
    """Culprits of longer steps, the likeliest first."""
    if durations.steps < FEWEST:
        return
    longer = np.where(warm_up(durations), np.nan, durations.normal.longer_ns)
    for _ in range(2 * MOST_FINDINGS):
        lost = Lost(durations, longer)
        if not np.isfinite(longer).any():
            return
        window, odds, hypotheses = _likeliest_window(lost)
        affected = window.affected(durations.steps) & np.isfinite(longer)
        if odds <= 0 or not affected.any():
            return
        if longer[affected].mean() < LEAST_COST * durations.usual_ns:
            longer = np.where(affected, np.nan, longer)
            continue
        found = _judged(lost, window, hypotheses, odds)
        if found is None:
            longer = np.where(affected, np.nan, longer)
            continue
        yield found
        longer = _left(lost, found)


def _likeliest_window(lost: Lost) -> tuple[Window, float, list[Hypothesis]]:
    """The window of the likeliest hypothesis, its log odds, and all hypotheses."""
    durations, usual_ns = lost.durations, max(lost.durations.usual_ns, 1.0)
    of_steps, known = durations.normal.noise_ns, np.isfinite(lost.longer_ns)
    hypotheses = [one for of_kind in KINDS.values() for one in of_kind(lost)]
    best, most = Window(0, 0, 0.0, 0.0, LEVEL), -np.inf
    for one in hypotheses:
        series = np.where(known, one.lost_ns / usual_ns, np.nan)
        own = [(one.noise_ns, log(lost.seen.size))] if one.noise_ns < of_steps else []
        for noise_ns, chance in [(of_steps, 0.0), *own]:
            window = best_window(series, noise_ns / usual_ns)
            many = one.choice * int(window.affected(durations.steps).sum())
            gain = window.ratio + one.prior - chance - many
            if gain > most:
                best, most = window, gain
    return best, most - penalty(1, durations.steps), hypotheses


def _judged(
    lost: Lost, window: Window, hypotheses: Sequence[Hypothesis], odds: float
) -> LocatedCulprit | None:
    """The hypothesis that fits a window best, of those that have a name; None if none has."""
    affected = window.affected(lost.durations.steps) & np.isfinite(lost.longer_ns)
    left = list(hypotheses)
    while left and affected.any():
        fits = [_fit(lost, one, affected) for one in left]
        best = left[int(np.argmax([_score(one, fit) for one, fit in zip(left, fits, strict=True)]))]
        own = _own_steps(best, left, fits, affected)
        if not own.all():
            steps = np.flatnonzero(affected)[own]
            return _judged(lost, _within(window, steps), left, odds) if steps.size else None
        scene = Scene(lost.durations, window, affected, _rivals(left, fits))
        attribution = best.attributed(scene, best)
        if attribution is not None:
            is_open = attribution.cause == "unknown"
            shares = (r.share for r in scene.rivals if is_open or best.covers(r.hypothesis))
            losses = float(lost.longer_ns[affected].sum()), float(best.lost_ns[affected].sum())
            return LocatedCulprit(attribution, scene, *losses, odds, sum(shares))
        left = [one for one in left if one.kind != best.kind]
    return None


def _fit(lost: Lost, one: Hypothesis, affected: Bools) -> Floats:
    """Log likelihood of each affected step, by what the hypothesis lost in it.

    Half of the measures are exact, the others hide a part.
    """
    noise = lost.durations.normal.noise_ns
    ratio = (lost.bound_ns[affected] + noise) / (one.lost_ns[affected] + noise)
    off = np.log(ratio) / FITS
    exact = log_density(off / SMALL) - np.log(SMALL)
    fit: Floats = np.logaddexp(log_density(off), exact) - one.choice
    return fit if one.shown is None else fit + one.shown[affected]


def _score(one: Hypothesis, fit: Floats) -> float:
    """Log likelihood of all steps: what a measure hides is much the same in each of them."""
    return float(fit.sum() / fit.size**QUARTER) + one.prior


def _rivals(hypotheses: Sequence[Hypothesis], fits: Sequence[Floats]) -> list[Rival]:
    """The posterior of all hypotheses, the likeliest first."""
    score = np.array([_score(one, fit) for one, fit in zip(hypotheses, fits, strict=True)])
    share = np.exp(score - score.max())
    share /= share.sum()
    order = np.argsort(-share, kind="stable").tolist()
    return [Rival(hypotheses[at], float(share[at])) for at in order]


def _own_steps(
    best: Hypothesis, hypotheses: Sequence[Hypothesis], fits: Sequence[Floats], affected: Bools
) -> Bools:
    """The steps of a window that are those of the culprit, shape (affected steps,).

    Not those that another one explains clearly better. Nor those in which most units lost as much,
    if others of the window show the difference.
    """
    if best.kind in UNNAMED:
        return _of_one_culprit(best, hypotheses, fits)
    if best.kind in WHOLE:
        return np.ones(int(affected.sum()), np.bool_)
    each = list(zip(hypotheses, fits, strict=True))
    own = next(fit for one, fit in each if one is best)
    parts = [fit for one, fit in each if one.kind not in WHOLE]
    together = [fit for one, fit in each if one.kind == "job"]
    kept: Bools = own > np.max(parts, axis=0) - AS_LIKELY
    if together and (own > together[0] + AS_LIKELY).any():
        kept &= own > together[0] + AS_LIKELY
    return kept


def _of_one_culprit(
    unnamed: Hypothesis, hypotheses: Sequence[Hypothesis], fits: Sequence[Floats]
) -> Bools:
    """The steps that one culprit explains so much better that it is no chance, or all steps.

    Where two culprits follow each other, none explains the steps of both.
    """
    each = list(zip(hypotheses, fits, strict=True))
    whole = next(fit for one, fit in each if one is unnamed)
    best, steps = penalty(1, whole.size), np.ones(whole.size, np.bool_)
    for one, fit in each:
        better = np.maximum(fit - whole, 0.0)
        gain = float(better.sum()) + one.prior - unnamed.prior
        if one.kind not in WHOLE and gain > best:
            best, steps = gain, better > 0
    return steps


def _within(window: Window, steps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Window:
    """A window in which only some ``steps`` are affected."""
    first, last = int(steps[0]), int(steps[-1])
    unaffected = tuple(np.setdiff1d(np.arange(first, last + 1), steps).tolist())
    return replace(window, first=first, last=last, unaffected=unaffected)


def _left(lost: Lost, found: LocatedCulprit) -> Floats:
    """By what each step is longer that is not explained yet; NaN where nothing more is known.

    Measures hide a part of what a culprit lost. So who lost most of what a step is longer by lost
    all of it.
    """
    best = found.scene.rivals[0].hypothesis
    explained = best.lost_ns > HALF * lost.longer_ns
    rest = np.where(explained & (best.kind not in WHOLE), 0.0, np.nan)
    return np.where(found.scene.affected, rest, lost.longer_ns)


def warm_up(durations: Durations) -> Bools:
    """The steps with which an attempt begins, if all of the job is slow in them, shape (steps,).

    As long as it is less slow in every step, or for a few steps if most units are. What transfers
    take longer is no warm-up.
    """
    warm = np.zeros(durations.steps, np.bool_)
    longer, noise = durations.normal.longer_ns, durations.normal.noise_ns
    usual = max(durations.usual_ns, 1.0)
    lost = Lost(durations, longer)
    common = (
        np.median(lost.by_units[lost.seen], axis=0) if lost.seen.size else np.zeros_like(longer)
    )
    computing = np.nan_to_num(longer - np.maximum(durations.on_path.transfer_longer.sum(axis=0), 0))
    together = common > HALF * np.nan_to_num(longer, nan=np.inf)
    for first in durations.job.phases.first_of_epoch.tolist():
        opening = computing[first + 1 : first + 2 * WARM_UP] / usual
        if opening.size:
            warm[first : first + 1 + fading(opening, noise / usual)] = True
        at = first + 1
        while at < min(first + WARM_UP, durations.steps) and together[at] and computing[at] > noise:
            warm[at] = True
            at += 1
    return warm

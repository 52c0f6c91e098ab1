"""What a slow stretch costs its job: the verification that every accusation has to pass.

The steps of the stretch are compared with the job's other steps. They must be longer by more
than a hundredth, and by more than the other steps vary. Many steps show a smaller difference: where
it is far beyond what the other steps vary, three thousandths suffice. The longest step of a stretch
does not count: alone it would be a spike. Steps that surround the stretch count as its neighbours:
a job's steps may get faster or slower over hours. The first step of an attempt follows none, so
its length is not measured alike, and does not count. Steps that are longer at regular intervals
(:mod:`~.recurring`) are compared with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.context import JobView
from llmprism.methods.prism.faults.measures.rates import ROUNDING
from llmprism.methods.prism.faults.measures.series import healthy
from llmprism.methods.prism.faults.suspects.at_once import Stretch, apart_ns, none_of
from llmprism.methods.prism.faults.suspects.recurring import recurring_ns
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import TO_SIGMA, deviation

LEAST_SHARE, DEVIATIONS = 0.01, 3.0
CLEAR_SHARE, CLEAR_DEVIATIONS = 0.003, 10.0
FEWEST = 6  # steps of a stretch, and around it, whose spread is known well enough for that
AROUND = 10  # steps before and after that show what a step takes
QUARTILE = 0.6745  # deviations from the lower quartile of a normal distribution to its middle
STEP_TO_STEP = TO_SIGMA / np.sqrt(2)  # median difference of neighbours to a deviation
UNUSUAL = 3.0  # deviations of a step that does not show what a step takes
FULLY, PARTLY = 0.5, 0.15  # of what the steps of a stretch are longer: neighbours that belong to it
FAR = 6.0  # times that bar: a neighbour that is longer still is so for a reason of its own
LONGER = 0.02  # of a step, at least: a neighbour that is longer belongs to a stretch


@dataclass(frozen=True)
class Cost:
    """Time lost in a stretch.

    Attributes
    ----------
    normal_ns, slow_ns : usual step around the stretch, and mean step in it, without the longest.
    lost_ns : summed over the steps of the stretch.
    deviations : how many deviations of a normal step the slow one is off.
    many : whether enough steps show how much steps vary.
    """

    normal_ns: float
    slow_ns: float
    lost_ns: float
    deviations: float
    many: bool = False

    @property
    def share(self) -> float:
        """By how much steps are longer, as a fraction of a normal step."""
        return self.slow_ns / self.normal_ns - 1 if self.normal_ns > 0 else 0.0

    @property
    def believed(self) -> bool:
        """Whether the job really is slower: one that stopped is, however soon the records end."""
        if np.isposinf(self.deviations):
            return self.lost_ns > 0
        clear = self.many and self.share > CLEAR_SHARE and self.deviations > CLEAR_DEVIATIONS
        return clear or (self.share > LEAST_SHARE and self.deviations > DEVIATIONS)


def cost_of(job: JobView, first: int, last: int, others: Sequence[Stretch] = ()) -> Cost:
    """Compare steps ``first`` to ``last`` with those around them, without what ``others`` cost."""
    duration = _own(job, first, last, others)
    shown = np.where(none_of(others, (first, last), duration.size), duration, np.nan)
    if _around(shown, first, last).size >= FEWEST:  # steps of the others vary with them
        duration = shown
    inside = duration[first : last + 1]
    around = _around(duration, first, last)
    if around.size < 2 or not np.isfinite(inside).any():
        return Cost(0.0, 0.0, 0.0, 0.0)
    (normal, spread), slow = _usual(around, job.tick_ns), middle_of(inside)
    spread /= np.sqrt(np.isfinite(inside).sum())
    many = min(int(np.isfinite(inside).sum()), around.size) >= FEWEST
    lost = float(np.nansum(inside - normal))
    return Cost(normal, slow, lost, (slow - normal) / max(spread, 1.0), many)


def _own(job: JobView, first: int, last: int, others: Sequence[Stretch]) -> Floats:
    """Lengths of steps without what recurs, and without what ``others`` cost [ns]."""
    duration = job.between_ends_ns
    if others:
        duration = apart_ns(duration, (first, last), others)
    return duration - recurring_ns(duration, first, last)


def cost_at(job: JobView, steps: Ints) -> Cost:
    """Compare single ``steps`` with all others of the job.

    What comes and goes also makes steps between them longer, by too little to be seen in each: all
    steps from the first to the last count for what is lost.
    """
    return _cost_at(_without(job, steps), steps, job.tick_ns)


def _cost_at(duration: Floats, steps: Ints, tick_ns: float) -> Cost:
    """Compare single ``steps`` with all others, by the lengths of all and the clock's tick [ns]."""
    first, last = int(steps.min()), int(steps.max())
    outside = np.delete(duration, np.arange(first, last + 1))
    few = np.isfinite(outside).sum() < FEWEST
    others = np.delete(duration, steps) if few else outside
    others = others[np.isfinite(others)]
    if others.size < 2 or not np.isfinite(duration[steps]).any():
        return Cost(0.0, 0.0, 0.0, 0.0)
    normal, spread = _usual(others, tick_ns)
    middle, spread = middle_of(duration[steps] - normal), spread / np.sqrt(steps.size)
    lost = float(np.nansum(duration[first : last + 1] - normal))
    return Cost(normal, normal + middle, lost, middle / max(spread, 1.0))


def _without(job: JobView, steps: Ints) -> Floats:
    """Lengths of all steps without what recurs [ns].

    Steps before the first and after the last of ``steps`` show that, if it recurs there: one in
    between that is long anyway may be longer still. Or else all others show it.
    """
    between = np.arange(int(steps.min()), int(steps.max()) + 1)
    extra_ns = np.zeros(job.count)
    for unknown in (between, steps):
        masked = job.between_ends_ns.astype(np.float64)
        masked[unknown] = np.nan
        if not extra_ns.any():
            extra_ns = recurring_ns(masked, masked.size, masked.size)
    lengths_ns: Floats = job.between_ends_ns - extra_ns
    return lengths_ns


def healthy_share(job: JobView) -> float:
    """Length of a healthy step of ``job``, as a share of its usual one: 1 if most are healthy."""
    return float(healthy(job.duration_ns[None])[0]) / max(job.period_ns, 1.0)


def with_neighbours(job: JobView, steps: Ints) -> Ints:
    """``steps`` and those beside them that are longer than all others by about as much."""
    duration = _without(job, steps)
    cost = _cost_at(duration, steps, job.tick_ns)
    long = duration > cost.normal_ns + FULLY * (cost.slow_ns - cost.normal_ns)
    chosen = np.zeros(job.count, np.bool_)
    chosen[steps] = True
    while True:
        beside = np.zeros_like(chosen)
        beside[1:] |= chosen[:-1]
        beside[:-1] |= chosen[1:]
        more = beside & long & ~chosen
        if not more.any():
            return np.flatnonzero(chosen)
        chosen |= more


def widened(
    job: JobView, first: int, last: int, within: Stretch, others: Sequence[Stretch] = ()
) -> Stretch:
    """A stretch with its neighbours that are longer than steps around it by about as much.

    What was slow need not have been so for the whole of the first and the last step, so one more
    step at each end may be longer by less: than all steps around, and than those on its own side,
    as a job may get faster while it warms up. ``within`` are the steps that may belong to it; what
    ``others`` cost is not counted.
    """
    duration = _own(job, first, last, others)
    known = np.nan_to_num(duration, nan=-np.inf)  # a step of unknown length is no longer one
    while (around := _around(duration, first, last)).size >= FEWEST:
        normal, full, part = _bars(around, duration[first : last + 1])
        before = known[first - 1] if first > within[0] else -np.inf
        after = known[last + 1] if last < within[1] else -np.inf
        spike = normal + FAR * (full - normal)
        before, after = (-np.inf if one > spike else one for one in (before, after))
        if max(before, after) <= full:
            begin = before > part and duration[first] > full  # or the first step is the one
            end = after > part and duration[last] > full
            earlier, later = _sides(duration, first, last)
            begin = begin and _stands_out(earlier[::-1], part - normal)
            end = end and _stands_out(later, part - normal)
            return first - int(begin), last + int(end)
        first, last = first - int(before > full), last + int(after > full)
    return first, last


def _stands_out(side_ns: Floats, by_ns: float) -> bool:
    """Whether the first of some steps is longer than the others by so much, if there are any."""
    others = side_ns[1:][np.isfinite(side_ns[1:])]
    return not others.size or bool(side_ns[0] > float(np.median(others)) + by_ns)


def _bars(around_ns: Floats, inside_ns: Floats) -> tuple[float, float, float]:
    """Length of a healthy step; of one as slow as those of a stretch, and of one slow in part."""
    spread = STEP_TO_STEP * float(np.median(np.abs(np.diff(around_ns))))
    normal = float(np.quantile(around_ns, 0.25)) + QUARTILE * spread  # few may be healthy
    slower = float(np.nanmedian(inside_ns)) - normal
    least = max(UNUSUAL * spread, LONGER * normal)
    return normal, normal + max(least, FULLY * slower), normal + max(least, PARTLY * slower)


def _around(duration_ns: Floats, first: int, last: int) -> Floats:
    """Lengths of the steps before and after a stretch [ns]."""
    around = np.concatenate(_sides(duration_ns, first, last))
    return around[np.isfinite(around)]


def _sides(duration_ns: Floats, first: int, last: int) -> tuple[Floats, Floats]:
    """The same by side, in order of time; NaN where the length is unknown."""
    return duration_ns[max(0, first - AROUND) : first], duration_ns[last + 1 :][:AROUND]


def middle_of(lengths_ns: Floats) -> float:
    """Mean of some lengths without the longest one [ns]: one long step is no stretch."""
    known = np.sort(lengths_ns[np.isfinite(lengths_ns)])
    return float(known[: max(1, known.size - 1)].mean())


def _usual(around_ns: Floats, tick_ns: float) -> tuple[float, float]:
    """Mean of steps without unusual ones, and their spread [ns]; a clock has such a tick."""
    middle = float(np.median(around_ns))
    spread = max(deviation(around_ns), ROUNDING * tick_ns)
    within = max(UNUSUAL * spread, LONGER * middle, tick_ns)
    usual = around_ns[np.abs(around_ns - middle) <= within]
    return float(usual.mean()), spread

"""Which steps differ? Windows of a series, by likelihood.

A series is what a culprit lost in each step, as a share of a step. Noise has Student's t
distribution. A fault does not affect all steps alike, so its level varies by a share of itself. A
hypothesis is a window of steps and a *shape*: a level (every step of the window is longer by one
share), or pauses (each of its steps is affected or not). For one share, the best window is the
contiguous part with the largest sum of log likelihood ratios (Bentley, Programming pearls, CACM
1984), so all windows are tried in linear time.

The penalty makes false findings as rare as the user asks: with ``g`` groups of a kind and windows
that begin and end at any step, chance exceeds a log likelihood ratio of x about g * steps * exp(-x)
times in a recording.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.parameters import FALSE_FINDINGS, LEVELS, PAUSES, SINGLE, TAIL, VARIES
from llmprism.numerics.arrays import Bools, Floats, Ints

LEVEL, WITH_PAUSES = "level", "pauses"
WINDOWS = 3.0  # lengths of windows that differ by more than the noise of their ends, for each begin
SHAPE = 2.0  # log odds of the rarer shape
ENDS = (3, 4, 5, 7, 10)  # steps of a warm-up


@dataclass(frozen=True)
class Window:
    """Steps ``first`` to ``last``, longer by the share ``level``.

    ``ratio`` is the log likelihood ratio against no difference at all. ``unaffected`` are
    steps of the window that are not longer: pauses do not affect every step.
    """

    first: int
    last: int
    level: float
    ratio: float
    shape: str
    unaffected: tuple[int, ...] = ()

    def steps(self, count: int) -> Bools:
        """Which of ``count`` steps are in the window."""
        inside = np.zeros(count, np.bool_)
        inside[self.first : self.last + 1] = True
        return inside

    def affected(self, count: int) -> Bools:
        """Which of ``count`` steps are longer."""
        inside = self.steps(count)
        inside[list(self.unaffected)] = False
        return inside


def penalty(groups: int, steps: int) -> float:
    """Log likelihood ratio that chance exceeds ``FALSE_FINDINGS`` times in 1,000 job-steps."""
    accepted = FALSE_FINDINGS / 1000 * steps
    return float(np.log(max(groups, 1) * WINDOWS * steps / accepted))


def penalty_always(groups: int, steps: int) -> float:
    """The same for what is slow in all steps: there is one window."""
    return float(np.log(max(groups, 1) / (FALSE_FINDINGS / 1000 * steps)))


def log_density(z: Floats) -> Floats:
    """Logarithm of Student's t density, without its constant."""
    return -(TAIL + 1) / 2 * np.log1p(z * z / TAIL)


def best_window(excess: Floats, error: float) -> Window:
    """The window of one series that is likeliest to be slow."""
    gains = _gains(excess, error)
    mixed = np.logaddexp(np.log(PAUSES) + gains, np.log(1 - PAUSES))
    level, pauses = _of_gains(gains, LEVEL, 0.0), _of_gains(mixed, WITH_PAUSES, SHAPE)
    best = max([level, pauses], key=lambda window: window.ratio)
    if best.first == best.last:
        return replace(best, ratio=best.ratio - SINGLE)
    if best.shape != WITH_PAUSES:
        return best
    unaffected = best.first + np.flatnonzero(
        gains[LEVELS.index(best.level), best.first : best.last + 1] <= 0
    )
    return replace(best, unaffected=tuple(unaffected.tolist()))


def fading(excess: Floats, error: float) -> int:
    """Steps for which a series is slow at first, and less in each one; 0 if a level is as likely.

    Of a level that lasts, or begins later, no step has to be less than the one before.
    """
    since, first = np.arange(excess.size), np.array(LEVELS)[:, None]
    level = largest_sums(_gains(excess, error))[0].max()
    most, steps = max(level, SHAPE) + SHAPE / 2, 0
    for ends in ENDS:
        expected = first * np.maximum(1 - since / ends, 0.0)
        varies = VARIES * np.where(excess > 0, expected, 0.0)  # a faster one speaks against it
        gains = _ratios(excess, error, (expected, varies))
        if gains.sum(axis=1).max() > most:
            most, steps = gains.sum(axis=1).max(), ends
    return steps


def _gains(excess: Floats, error: float) -> Floats:
    """Log likelihood ratio of each level in each step, shape (levels, steps); 0 where unknown."""
    levels = np.array(LEVELS)[:, None]
    gains = _ratios(excess, error, (levels, VARIES * levels))
    signed: Floats = np.where(excess > 0, gains, np.minimum(gains, 0.0))
    return signed


def _ratios(excess: Floats, error: float, level: tuple[Floats, Floats]) -> Floats:
    """Log likelihood ratio of values that vary around a middle by a width; 0 if unknown."""
    middle, width = level
    wider = np.hypot(error, width)
    base = log_density(excess / error) + np.log(wider / error)
    ratios: Floats = np.nan_to_num(log_density((excess - middle) / wider) - base)
    return ratios


def _of_gains(gains: Floats, shape: str, against: float) -> Window:
    ratio, first, last = largest_sums(gains)
    at = int(np.argmax(ratio))
    return Window(int(first[at]), int(last[at]), LEVELS[at], float(ratio[at]) - against, shape)


def largest_sums(gains: Floats) -> tuple[Floats, Ints, Ints]:
    """Of each row, the contiguous part with the largest sum: the sum, its first and last place.

    >>> largest_sums(np.array([[1.0, -3.0, 2.0, 2.0, -1.0]]))
    (array([4.]), array([2]), array([3]))
    """
    until = np.cumsum(gains, axis=1)
    before = np.concatenate((np.zeros((len(gains), 1)), until[:, :-1]), axis=1)
    lowest = np.minimum.accumulate(before, axis=1)
    last = np.argmax(until - lowest, axis=1)
    rows = np.arange(len(gains))
    place = np.arange(gains.shape[1])
    begins = np.where(place <= last[:, None], before, np.inf)
    first = gains.shape[1] - 1 - np.argmin(begins[:, ::-1], axis=1)
    return (until - lowest)[rows, last], first, last

"""Two levels of the lengths of steps: before a fault and in it, where single steps vary as much.

A step that is a little longer shows nothing by itself. If the medians of neighbouring steps fall
into two levels, and the steps of the upper level follow each other, something changed when they
began. Steps that vary at random, or slowly, have no two levels: many of them lie between, and the
upper ones are several runs. If steps vary by a good part of their length, hosts also do other work,
which may last as well: then nothing is concluded.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.measures.series import FEWEST, LEVEL, stretches
from llmprism.numerics.arrays import Bools, Floats
from llmprism.numerics.missing import deviation, finite_median

LEAST = 0.03  # of a step: between the two levels
APART = 1.5  # deviations of the level that varies more: between their middles
CLEARLY = 4.0  # deviations of the lower level: between them, if the upper one may vary
STEADY = 0.05  # of a step: what those of the lower level vary, if nothing else delays a job
TICKS = 3.0  # of the clock: lengths of one level differ by one each way
MOSTLY = 0.85  # of the steps of each level: on its side of the bar between both


def upper_run(duration_ns: Floats, tick_ns: float = 0.0) -> tuple[int, int] | None:
    """First and last step of the upper of two levels; None where there are no two.

    ``duration_ns`` has one length a step, by a clock with such a tick. Steps before the run show
    that it is not the usual level.
    """
    known = np.isfinite(duration_ns)
    known[:1] = False  # the first step of a job follows none
    at = np.flatnonzero(known)
    if at.size < 2 * FEWEST:
        return None
    length_ns, finest_ns = duration_ns[at], TICKS * tick_ns
    runs = stretches(_upper(_smooth(length_ns)))
    if not runs:
        return None
    first, last = _widened(length_ns, *max(runs, key=lambda run: run[1] - run[0]), finest_ns)
    inside = _inside(length_ns, first, last)
    if first < LEVEL or inside.sum() < LEVEL or not _two_levels(length_ns, inside, finest_ns):
        return None
    return int(at[first]), int(at[last])


def _inside(length_ns: Floats, first: int, last: int) -> Bools:
    steps = np.arange(length_ns.size)
    inside: Bools = (steps >= first) & (steps <= last)
    return inside


def _widened(length_ns: Floats, first: int, last: int, finest_ns: float) -> tuple[int, int]:
    """A run, with the steps next to it that are above the bar."""
    bar_ns = _bar_ns(length_ns, _inside(length_ns, first, last), finest_ns)
    while first > 0 and length_ns[first - 1] > bar_ns:
        first -= 1
    while last + 1 < length_ns.size and length_ns[last + 1] > bar_ns:
        last += 1
    return first, last


def _bar_ns(length_ns: Floats, inside: Bools, finest_ns: float) -> float:
    """Between two levels: their middle, or less where the lower one varies by far less."""
    low, high = finite_median(length_ns[~inside]), finite_median(length_ns[inside])
    least = max(LEAST * low, CLEARLY * deviation(length_ns[~inside]), finest_ns)
    return low + min(high - low, least) / 2


def _smooth(length_ns: Floats) -> Floats:
    """Median of each length and its neighbours."""
    padded = np.pad(length_ns, LEVEL // 2, mode="reflect")
    middles: Floats = np.median(np.lib.stride_tricks.sliding_window_view(padded, LEVEL), axis=1)
    return middles


def _upper(values: Floats) -> Bools:
    """Which values are in the upper of two classes that differ least within themselves (Otsu)."""
    ordered = np.sort(values)
    count = np.arange(1, ordered.size)
    sums = np.cumsum(ordered)[:-1]
    total = float(ordered.sum())
    between = (sums / count - (total - sums) / (ordered.size - count)) ** 2
    at = int(np.argmax(between * count * (ordered.size - count)))
    upper: Bools = values > ordered[at]
    return upper


def _two_levels(length_ns: Floats, inside: Bools, finest_ns: float) -> bool:
    """Whether steps inside and outside differ by more than they vary.

    Or clearly by more than those outside vary: work that is unevenly divided is divided again in
    each step.
    """
    lower, upper = length_ns[~inside], length_ns[inside]
    if lower.size < FEWEST:
        return False
    low, spread = finite_median(lower), deviation(lower)
    most = min(CLEARLY * spread, APART * max(spread, deviation(upper)))
    if spread > STEADY * low or finite_median(upper) - low < max(LEAST * low, most):
        return False
    bar_ns = _bar_ns(length_ns, inside, finest_ns)
    return min(float((lower < bar_ns).mean()), float((upper > bar_ns).mean())) >= MOSTLY

"""The length of a step: the shortest time after which the traffic of a job repeats.

The autocorrelation of the rates, taken over all ports of a job, has peaks at the step and at its
multiples. Ports are read and refreshed at different times, so their sum shows more than each of
them. The first peak that is nearly as high as the highest later one is the step: peaks of
micro-batches are lower, since they lack what comes once in a step, and multiples are no higher.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.counters.curves import Curves
from llmprism.numerics.arrays import Floats, Ints

ONE_CLOCK = 0.8
"""Concentration of the times of readings from which ports are read together, at an even pace."""
BEAT_DEPTH = 8.0
"""Refreshes: with bursts every two refreshes, halves of a beat differ by two of them, of a fourth
of as many as the beat has refreshes."""
LONG_PERIOD = 12.0
"""Refreshes: a beat as long has at least six steps, whose errors it adds up."""
COHERENT_FOR = 10
"""Periods after which a beat has lost its phase, with errors of 1 % of a step."""
KEPT = 0.8
"""Of the autocorrelation at one period, that is left after them."""
BEAT = (
    "a period shows that may be a beat of shorter steps with the readings, which are all taken at"
    " the same times"
)
NEARLY = 0.8
"""Of the highest peak, that the peak of the step has: later ones vary by what else repeats."""
SHORTEST = 2.0
"""Refreshes in a step: fewer do not show a period (Nyquist)."""
FEWEST_STEPS = 4
"""In a recording: the peak must repeat."""
CLEAR = 6.0
"""Deviations of an autocorrelation by chance, for the highest peak of all to be one."""
SILENT = 0.05
"""Of the mean rate of a job: less is silence; acknowledgements and heartbeats are far below."""
RETURNED = 0.6
"""Of the height of the peak of a micro-batch, that the peak of its step has at least."""
FALLEN = 0.5
"""Of the peak of a step, to which the peaks of its parts fall in between."""
OF_PARTS = 0.7
"""Confidence in a step that has parts: every few steps may have something in common, too."""
STEEP = 0.05
"""By which a peak stands above the valley before it, to be one."""


@dataclass(frozen=True)
class Rhythm:
    """The length of a step.

    Attributes
    ----------
    period_ns : 0 if unknown.
    strength : autocorrelation at the period, in [0, 1].
    confidence : that this is the step, and not a part or a multiple of it.
    reason : why it is unknown; empty if it is known.
    """

    period_ns: int
    strength: float
    confidence: float
    reason: str = ""


def rhythm_of(curves: Curves, rows: Ints) -> Rhythm:
    """The step of the job with these ports."""
    rate = profile(curves, rows)
    like = autocorrelation(smoothed(rate[slice(*active_part(rate))], curves))
    refresh = curves.resolution_ns / curves.bin_ns
    shortest, longest = int(np.ceil(SHORTEST * refresh)), like.size // FEWEST_STEPS
    chance = CLEAR * float(np.sqrt(refresh / like.size))
    peaks = _peaks(like, shortest, longest, chance)
    if not peaks.size:
        return Rhythm(0, 0.0, 0.0, _why_none(like, shortest, longest))
    highest = float(like[peaks].max())
    first = int(peaks[like[peaks] >= NEARLY * highest][0])
    part, first = first, _whole(like, peaks, first)
    valley = float(like[: first + 1].min())
    contrast = like[first] - valley
    rival = max((float(like[p]) for p in peaks if p < first), default=valley)
    sure = np.clip((like[first] - max(rival, valley)) / max(contrast, 1e-9), 0, 1)
    period = _refined(like, first)
    if may_be_beat(curves, rows, rate, period) and not keeps_time(like, period, refresh):
        return Rhythm(0, 0.0, 0.0, BEAT)
    confidence = float(np.clip(contrast, 0, 1) ** 0.5 * (0.5 + 0.5 * sure))
    confidence *= 1.0 if part == first else OF_PARTS
    return Rhythm(round(period * curves.bin_ns), float(like[first]), confidence)


def _whole(like: Floats, peaks: Ints, part: int) -> int:
    """The lag at which the peaks themselves repeat: a step, if ``part`` is a micro-batch in it.

    Shifted by a part of a step, fewer and fewer parts fit, until the whole step fits again.
    """
    later = peaks[(peaks > part) & (like[peaks] >= RETURNED * like[part])]
    for lag in later:
        heights = [like[k : k + part].max() for k in range(part, int(lag) - part, part)]
        if heights and min(heights) < FALLEN * like[lag]:
            around = later[np.abs(later - lag) <= lag // 4]
            return int(around[like[around].argmax()])
    return part


def profile(curves: Curves, rows: Ints) -> Floats:
    """Mean rate of some ports, each relative to its own mean, shape (bins,)."""
    traffic = curves.exchanged(rows)
    mean = traffic.mean(axis=1, keepdims=True)
    return np.asarray((traffic / np.maximum(mean, 1e-30)).mean(axis=0))


def may_be_beat(curves: Curves, rows: Ints, rate: Floats, period: float) -> bool:
    """Whether readings at an even pace may only seem to see a period (in bins).

    Steps shorter than two refreshes beat with the pace of readings. A beat is shallow: half of its
    period has at most one burst more or less than the other half, of the many in it. Ports that are
    read at other times, or unevenly, have no beat in common.
    """
    if np.abs(curves.pace[rows].mean()) < ONE_CLOCK:
        return False
    half = max(1, round(period / 2))
    sums = np.convolve(rate, np.ones(half), "valid")
    whole = int(2 * half)
    count = sums.size // whole
    if not count:
        return True
    each = sums[: count * whole].reshape(count, whole)
    depth = float(np.median((each.max(axis=1) - each.min(axis=1)) / max(sums.mean(), 1e-30)))
    return depth <= BEAT_DEPTH * curves.resolution_ns / (period * curves.bin_ns)


def keeps_time(like: Floats, period: float, refresh: float) -> bool:
    """Whether a long period is as regular as a step, and not as a beat.

    The error of a beat's length is that of the many short steps in it, so it soon loses its phase.
    """
    multiples = np.rint(period * np.arange(2, COHERENT_FOR + 1)).astype(np.int64)
    if period < LONG_PERIOD * refresh or multiples[-1] >= like.size:
        return False
    return bool(like[multiples].min() >= KEPT * like[round(period)])


def active_part(rate: Floats) -> tuple[int, int]:
    """First bin with traffic, and the bin after the last one: the job may begin and end within."""
    active = np.flatnonzero(rate >= SILENT * rate.mean())
    return (int(active[0]), int(active[-1]) + 1) if active.size else (0, rate.size)


def smoothed(values: Floats, curves: Curves) -> Floats:
    """Running mean over one refresh: the beat of readings with refreshes cancels out."""
    width = max(1, round(curves.resolution_ns / curves.bin_ns))
    return np.convolve(values, np.ones(width) / width, "same")


def autocorrelation(values: Floats) -> Floats:
    """Autocorrelation at each lag, shape (bins,), 1 at lag 0 and 0 throughout for a constant.

    Each lag is normalised by the number of its pairs, so that a peak does not fall with its lag.
    """
    size = values.size
    centred = values - values.mean()
    power = np.abs(np.fft.rfft(centred, 2 * size)) ** 2
    like = np.fft.irfft(power)[:size] / np.arange(size, 0, -1)
    return np.asarray(like / like[0] if like[0] > 0 else np.zeros(size))


def _peaks(like: Floats, shortest: int, longest: int, chance: float) -> Ints:
    """Lags of clear peaks, that stand above the valleys on both sides."""
    lags = np.arange(max(shortest, 1), min(longest, like.size - 1))
    if not lags.size:
        return lags
    window = max(1, shortest // 2)
    padded = np.pad(like, window, mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * window + 1)
    top = around[lags].max(axis=1) == like[lags]
    floor = np.minimum.accumulate(like)[lags]
    clear = top & (like[lags] >= chance) & (like[lags] - floor >= STEEP)
    return np.asarray(lags[clear], np.int64)


def _why_none(like: Floats, shortest: int, longest: int) -> str:
    if longest <= shortest:
        return "the recording is shorter than four of the shortest steps that it could show"
    if not like.any():
        return "the ports move the same in every bin"
    return "nothing repeats in the traffic at this resolution"


def _refined(like: Floats, first: int) -> float:
    """The period in bins, from the farthest multiple that is still a clear peak."""
    period = _vertex(like, first)
    multiple = 1
    while multiple < like.size // (2 * first):
        place = round(period * (multiple + 1))
        reach = max(1, first // 4)
        low, high = place - reach, min(place + reach + 1, like.size // 2)
        if high - low < 3:
            break
        top = low + int(like[low:high].argmax())
        if like[top] < like[first] / 2 or top in (low, high - 1):
            break
        multiple += 1
        period = _vertex(like, top) / multiple
    return period


def _vertex(like: Floats, top: int) -> float:
    """The place of a peak between bins: the vertex of the parabola through it."""
    before, at, after = like[top - 1 : top + 2]
    bend = before - 2 * at + after
    return top + (0.5 * (before - after) / bend if bend < 0 else 0.0)

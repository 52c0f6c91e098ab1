"""One number a step, judged against its own healthy value.

The healthy value is taken from the better steps: the quartile on the good side, so that a
fault may last for up to three quarters of the steps. Where a few steps in a row are clearly better
than all others, they are the healthy ones, and the fault may last for all others. The noise is
taken from the differences between neighbouring steps, whose median does not notice a shift that
lasts, and from how far the best steps are below the healthy value: what varies slowly differs
little from step to step.

A step is *out* if it is worse than healthy by more than five deviations of that noise, and by
more than a least share that matters. A *stretch* is a run of steps that are out. One step
alone is a spike and not a stretch; a gap of one step does not end one.

A shift that is too small for that in any one step shows in several of them: the median of five
neighbouring steps varies half as much as one. Where *levels* are asked for, steps also count as out
that are beyond the bar of such a median, as their neighbours are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.numerics.arrays import Bools, Floats, Ints, by_parts
from llmprism.numerics.missing import TO_SIGMA, nanmedian, nanquantile

DEVIATIONS = 5.0
SHORTEST = 2  # steps of a stretch
ENOUGH = 3  # steps of a stretch that need not be far out
FAR = 2.0  # times the bar
GAP = 1  # steps within a stretch that may look healthy
FEWEST = 6  # steps that show a healthy value
LEVEL = 5  # neighbouring steps whose median shows a level
APART = 2.0  # times what values of a level differ: the distance between two levels
OF_MEDIAN = 0.54  # deviation of the median of so many values, over that of one
NOISIER = 3.0  # times the noise of the median rank: what a healthy rank does not exceed
QUIET = 2.2  # lower quartile of the difference of two neighbours to a deviation
BELOW = 0.97  # deviations from the lower quartile of a normal distribution to its twentieth part
JUMPS_TO_SIGMA = TO_SIGMA / np.sqrt(2)  # median absolute difference of neighbours to a deviation


@dataclass(frozen=True)
class Judged:
    """Series relative to their healthy values; above 1 is worse. Shape (series, steps).

    Attributes
    ----------
    ratio : value over healthy value, NaN where there is none.
    noise : deviation of ``ratio`` from step to step, shape (series,).
    out : whether a step is out.
    far : whether it is out by so much that few steps suffice.
    """

    ratio: Floats
    noise: Floats
    out: Bools
    far: Bools

    def near_worst(self, share: float) -> Bools:
        """Steps that are out by such a share of what the series is that is out by most, or more.

        Who is out by less may wait for it.
        """
        excess = np.where(self.out, np.nan_to_num(self.ratio, nan=1.0) - 1, 0.0)
        found: Bools = self.out & (excess >= share * excess.max(axis=0, initial=0.0))
        return found

    @property
    def lasting(self) -> Bools:
        """Steps that are out, without short stretches that are not far out."""
        kept = np.zeros_like(self.out)
        lasts = bridged(self.out, np.isfinite(self.ratio))
        for row, (out, far) in enumerate(zip(self.out, self.far, strict=True)):
            for first, last in stretches(lasts[row]):
                inside = slice(first, last + 1)
                if out[inside].sum() >= ENOUGH or far[inside].sum() >= SHORTEST:
                    kept[row, inside] = out[inside]
        return kept


def judged(
    values: Floats,
    least: float,
    finest: Floats | float = 0.0,
    *,
    peers: bool = False,
    levels: bool = False,
    deviations: float = DEVIATIONS,
) -> Judged:
    """Judge ``values`` (larger is worse), shape (series, steps), against their healthy values.

    ``finest`` is the noise that the resolution of the records makes, whatever is seen of it.
    With ``peers`` the series are of ranks that do the same: one that is noisier than the others may
    come and go, so its noise is that of its quiet steps; and where it is much noisier than the
    others, its own noise does not excuse it. With ``levels`` a small shift
    counts that lasts. A step is out by so many ``deviations``.
    """
    known = np.isfinite(values).sum(axis=1) >= FEWEST
    usable = np.where(known[:, None], values, np.nan)
    usual = healthy(usable)
    ratio: Floats = usable / np.where(usual > 0, usual, np.nan)[:, None]  # a clock may show zeros
    noise = _noise(ratio)
    if peers and known.any():
        of_peers = float(np.median(noise[known]))
        quiet = np.maximum(_noise(ratio, quiet=True), of_peers)
        noise = np.minimum(np.minimum(noise, quiet), NOISIER * of_peers)
    noise = np.maximum(noise, finest)
    excess = np.nan_to_num(ratio, nan=0.0) - 1
    bar = np.maximum(deviations * noise, least)[:, None]
    out: Bools = excess > bar
    if levels:
        of_level = np.maximum(OF_MEDIAN * deviations * noise, least)[:, None]
        out |= (levels_of(excess) > of_level) & (excess > of_level)
    return Judged(ratio, noise, out, excess > FAR * bar)


def levels_of(excess: Floats) -> Floats:
    """Median of each value and its neighbours; at the ends, of the first or last five."""
    if excess.shape[1] < LEVEL:
        return np.zeros_like(excess)
    middles = np.median(np.lib.stride_tricks.sliding_window_view(excess, LEVEL, axis=1), axis=2)
    return np.pad(middles, ((0, 0), (LEVEL // 2, LEVEL // 2)), mode="edge")


def healthy(values: Floats) -> Floats:
    """Healthy value of each series (steps are the last axis), NaN where it has no value.

    The lower quartile, or the median of the lower of two levels if that is shorter than a quarter.
    """
    return by_parts(_healthy, values)


def _healthy(values: Floats) -> Floats:
    usual = nanquantile(values, 0.25)
    lower = lower_level(values)
    found: Floats = np.where(np.isnan(lower), usual, np.fmin(lower, usual))
    return found


def lower_level(values: Floats, most: float = 0.25) -> Floats:
    """Median of the lower of two levels of each series; NaN where there are no two.

    A level is a run of steps whose values are apart from all others, by more than twice what they
    differ among themselves. The lower one has at most a share ``most`` of the steps.
    """
    steps = values.shape[-1]
    count = np.isfinite(values).sum(axis=-1)
    found = np.full(values.shape[:-1], np.nan)
    if steps < 2 * LEVEL:
        return found
    order = np.argsort(values, axis=-1, kind="stable")  # NaN come last
    ordered = np.take_along_axis(values, order, axis=-1)
    begin, end = np.minimum.accumulate(order, axis=-1), np.maximum.accumulate(order, axis=-1)
    for size in range(LEVEL, int(most * steps) + 1):
        gap = ordered[..., size] - ordered[..., size - 1]
        place = np.minimum((size + np.maximum(count, size + 1)) // 2, steps - 1)[..., None]
        above = np.take_along_axis(ordered, place, axis=-1)[..., 0] - ordered[..., size]
        apart = gap > APART * np.fmax(ordered[..., size - 1] - ordered[..., 0], above)
        in_a_row = end[..., size - 1] - begin[..., size - 1] < size + GAP
        found = np.where(apart & in_a_row, np.median(ordered[..., :size], axis=-1), found)
    return found


def by_message(times: Floats) -> Floats:
    """One series for each message of an endpoint: shape (endpoints, messages, steps).

    ``times`` has shape (endpoints, steps, messages).
    """
    return np.ascontiguousarray(times.transpose(0, 2, 1))


def excess_of(times: Floats) -> tuple[Floats, Ints]:
    """How much longer messages take than in healthy steps: the sum over those of a step.

    And the number of messages in it; both have shape (endpoints, steps), ``times`` has shape
    (endpoints, steps, messages).
    """
    both = by_parts(_excess, times)
    return both[:, 0], both[:, 1].astype(np.int64)


def _excess(times: Floats) -> Floats:
    """Sum and number of :func:`excess_of`, shape (endpoints, 2, steps)."""
    series = by_message(times)  # may be ``times`` themselves, which are the caller's
    excess = series - healthy(series)[..., None]
    return np.stack((np.nansum(excess, axis=1), np.isfinite(excess).sum(axis=1)), axis=1)


def _noise(ratio: Floats, *, quiet: bool = False) -> Floats:
    """Deviation of each series from step to step; of its ``quiet`` steps, or of most."""
    jumps = np.abs(np.diff(ratio, axis=1))
    usual = QUIET * nanquantile(jumps, 0.25) if quiet else JUMPS_TO_SIGMA * nanmedian(jumps, axis=1)
    quick = np.where(np.isnan(jumps).all(axis=1), 0.0, usual)
    best = nanquantile(ratio, 0.05)
    slow = np.where(np.isnan(ratio).all(axis=1), 0.0, (healthy(ratio) - best) / BELOW)
    noise: Floats = np.maximum(quick, slow)
    return noise


def bridged(out: Bools, known: Bools) -> Bools:
    """``out``, with unknown steps between two that are out, by row."""
    steps = np.arange(out.shape[1])
    before = np.maximum.accumulate(np.where(known, steps, -1), axis=1)
    after = np.minimum.accumulate(np.where(known, steps, steps.size)[:, ::-1], axis=1)[:, ::-1]
    inside = (before >= 0) & (after < steps.size)
    rows = np.arange(len(out))[:, None]
    ends = out[rows, np.maximum(before, 0)] & out[rows, np.minimum(after, steps.size - 1)]
    found: Bools = out | (~known & inside & ends)
    return found


def stretches(out: Bools) -> list[tuple[int, int]]:
    """First and last step of every stretch.

    >>> stretches(np.array([0, 1, 1, 0, 1, 0, 0, 1], bool))
    [(1, 4)]
    """
    at = np.flatnonzero(out)
    if not at.size:
        return []
    runs = np.split(at, np.flatnonzero(np.diff(at) > GAP + 1) + 1)
    return [(int(run[0]), int(run[-1])) for run in runs if run.size >= SHORTEST]

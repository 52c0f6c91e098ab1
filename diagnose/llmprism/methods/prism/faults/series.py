"""One number a step, judged against its own healthy value.

The healthy value is taken from the better steps: the quartile on the good side, so that a
fault may last for up to three quarters of the steps. The noise is taken from the differences
between neighbouring steps, whose median does not notice a shift that lasts.

A step is *out* if it is worse than healthy by more than five deviations of that noise, and by
more than a least share that matters. A *stretch* is a run of steps that are out. One step
alone is a spike and not a stretch; a gap of one step does not end one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.numerics.arrays import Bools, Floats

DEVIATIONS = 5.0
SHORTEST = 2  # steps of a stretch
GAP = 1  # steps within a stretch that may look healthy
FEWEST = 6  # steps that show a healthy value
TO_SIGMA = 1.4826 / np.sqrt(2)  # median absolute difference of neighbours to a deviation


@dataclass(frozen=True)
class Judged:
    """Series relative to their healthy values; above 1 is worse. Shape (series, steps).

    Attributes
    ----------
    ratio : value over healthy value, NaN where there is none.
    noise : deviation of ``ratio`` from step to step, shape (series,).
    out : whether a step is out.
    """

    ratio: Floats
    noise: Floats
    out: Bools


def judged(values: Floats, least: float) -> Judged:
    """Judge ``values`` (larger is worse), shape (series, steps), against their healthy values."""
    known = np.isfinite(values).sum(axis=1) >= FEWEST
    usable = np.where(known[:, None], values, np.nan)
    ratio: Floats = usable / healthy(usable)[:, None]
    noise = _noise(ratio)
    bar = 1 + np.maximum(DEVIATIONS * noise, least)
    out: Bools = np.nan_to_num(ratio, nan=0.0) > bar[:, None]
    return Judged(ratio, noise, out)


def healthy(values: Floats) -> Floats:
    """Lower quartile of each series, NaN where it has no value."""
    none = np.asarray(np.isnan(values).all(axis=1))
    filled = np.where(none[:, None], 0.0, values)
    return np.where(none, np.nan, np.nanquantile(filled, 0.25, axis=1))


def _noise(ratio: Floats) -> Floats:
    jumps = np.abs(np.diff(ratio, axis=1))
    none = np.asarray(np.isnan(jumps).all(axis=1))
    return np.where(none, 0.0, TO_SIGMA * np.nanmedian(np.where(none[:, None], 0.0, jumps), axis=1))


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

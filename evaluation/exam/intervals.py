"""Estimates with 95 % intervals: shares, and means and rates over worlds.

The interval of a share of faults is Wilson's. Answers of one world depend on each other, so the
interval of a mean or a rate comes from worlds that are drawn again with replacement (bootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEVIATIONS = 1.96
"""Of the normal distribution: an interval of 95 %."""
DRAWS = 2000
_SEED = 44

Estimate = dict[str, Any]
"""``value``, ``low`` and ``high`` (None where undefined), and ``of``, the number it is based on."""


def share(hits: float, of: float) -> Estimate:
    """``hits`` of ``of`` with Wilson's score interval.

    >>> {name: round(value, 3) for name, value in share(9, 10).items()}
    {'value': 0.9, 'low': 0.596, 'high': 0.982, 'of': 10}
    """
    if of == 0:
        return {"value": None, "low": None, "high": None, "of": 0}
    z, part = DEVIATIONS, hits / of
    whole = 1 + z * z / of
    middle = part + z * z / (2 * of)
    half = z * float(np.sqrt(part * (1 - part) / of + z * z / (4 * of * of)))
    low, high = max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)
    return {"value": part, "low": low, "high": high, "of": round(of)}


def mean_of(values: Sequence[float | None]) -> Estimate:
    """The mean of the values that are defined, one of each world."""
    known = [value for value in values if value is not None]
    return rate(known, [1.0] * len(known))


def rate(counts: Sequence[float], sizes: Sequence[float]) -> Estimate:
    """Sum of ``counts`` over sum of ``sizes``, one of each for every world.

    >>> rate([1, 1, 1], [2, 2, 2])
    {'value': 0.5, 'low': 0.5, 'high': 0.5, 'of': 3}
    """
    upper, lower = np.array(counts, float), np.array(sizes, float)
    if not lower.sum():
        return {"value": None, "low": None, "high": None, "of": 0}
    low, high = _bounds(upper, lower)
    return {
        "value": float(upper.sum() / lower.sum()),
        "low": low,
        "high": high,
        "of": int((lower > 0).sum()),
    }


def _bounds(upper: NDArray[np.float64], lower: NDArray[np.float64]) -> tuple[float, float]:
    chosen = np.random.default_rng(_SEED).integers(len(upper), size=(DRAWS, len(upper)))
    sizes = lower[chosen].sum(axis=1)
    rates = upper[chosen].sum(axis=1)[sizes > 0] / sizes[sizes > 0]
    low, high = np.quantile(rates, [0.025, 0.975])
    return float(low), float(high)


def events(numbers: Sequence[float], sizes: Sequence[float]) -> Estimate:
    """The rate of events, one number and one size of each world.

    The interval is the wider one of the bootstrap and of a Poisson process (Garwood, 1936), since a
    bootstrap of worlds without any event has no width.

    >>> [round(value, 2) for value in events([0, 0], [50.0, 50.0]).values()]
    [0.0, 0.0, 0.04, 2]
    """
    from scipy.stats import chi2

    plain, number, size = rate(numbers, sizes), sum(numbers), float(sum(sizes))
    if plain["value"] is None:
        return plain
    low = float(chi2.ppf(0.025, 2 * number)) / 2 / size if number else 0.0
    high = float(chi2.ppf(0.975, 2 * number + 2)) / 2 / size
    return plain | {"low": min(low, plain["low"]), "high": max(high, plain["high"])}


def part(hits: Sequence[float], of: Sequence[float]) -> Estimate:
    """A share with hits and a size of each world: the wider one of the bootstrap and of Wilson."""
    plain, wilson = rate(hits, of), share(sum(hits), sum(of))
    if plain["value"] is None:
        return plain
    bounds = {"low": min(plain["low"], wilson["low"]), "high": max(plain["high"], wilson["high"])}
    return plain | bounds | {"of": wilson["of"]}


def middle(values: Sequence[float]) -> Estimate:
    """The median of ``values``, with the bootstrap of it."""
    if not values:
        return {"value": None, "low": None, "high": None, "of": 0}
    known = np.array(values, float)
    chosen = np.random.default_rng(_SEED).integers(len(known), size=(DRAWS, len(known)))
    low, high = np.quantile(np.median(known[chosen], axis=1), [0.025, 0.975])
    return {
        "value": float(np.median(known)),
        "low": float(low),
        "high": float(high),
        "of": len(known),
    }

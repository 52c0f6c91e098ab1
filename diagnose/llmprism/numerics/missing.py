"""Medians and quantiles of values some of which are missing: NaN."""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Floats


def nanmedian(values: Floats, axis: int) -> Floats:
    """Median without NaN; NaN where there is nothing, silently."""
    empty = np.isnan(values).all(axis=axis)
    filled = np.where(np.expand_dims(empty, axis), 0.0, values)
    return np.where(empty, np.nan, np.nanmedian(filled, axis=axis))


def nanquantile(values: Floats, share: float) -> Floats:
    """Quantile without NaN along the last axis; NaN where there is nothing, silently.

    What ``numpy.nanquantile`` returns, which sorts each series by itself and takes long.

    >>> nanquantile(np.array([[4.0, np.nan, 1.0, 2.0], [np.nan] * 4]), 0.25)
    array([1.5, nan])
    """
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    ordered = np.sort(values, axis=-1)  # NaN come last
    last = np.maximum((~np.isnan(values)).sum(axis=-1, keepdims=True) - 1, 0)
    place = last * share
    below = np.floor(place).astype(np.int64)
    low = np.take_along_axis(ordered, below, axis=-1)
    high = np.take_along_axis(ordered, np.minimum(below + 1, last), axis=-1)
    part, between = place - below, high - low
    found: Floats = np.where(part < 0.5, low + between * part, high - between * (1 - part))
    return found[..., 0]


def finite_median(values: Floats) -> float:
    """Median of the values that are finite; NaN if none is."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else np.nan

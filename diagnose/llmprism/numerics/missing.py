"""Medians and quantiles of values some of which are missing: NaN."""

from __future__ import annotations

from functools import partial

import numpy as np

from llmprism.numerics.arrays import Floats, Ints, by_parts

TO_SIGMA = 1.4826  # median distance from the median to the deviation of a normal distribution


def nanmedian(values: Floats, axis: int) -> Floats:
    """Median without NaN; NaN where there is nothing, silently.

    What ``numpy.nanmedian`` returns, which takes longer and warns where there is nothing.
    """
    if axis:
        return by_parts(partial(_nanmedian, axis=axis), values)
    return _nanmedian(values, axis)


def _nanmedian(values: Floats, axis: int) -> Floats:
    if not values.shape[axis]:
        return np.full(np.delete(values.shape, axis), np.nan)
    ordered = np.sort(values, axis=axis)  # NaN come last
    known = np.expand_dims((~np.isnan(values)).sum(axis=axis), axis)
    low = np.take_along_axis(ordered, np.maximum(known - 1, 0) // 2, axis=axis)
    high = np.take_along_axis(ordered, np.minimum(known // 2, values.shape[axis] - 1), axis=axis)
    middle = np.where(known > 0, (low + high) / 2, np.nan)
    return np.squeeze(middle, axis=axis)


def group_medians(values: Floats, group: Ints) -> Floats:
    """Median of the group of each of the ``values``, without NaN; NaN where there is nothing.

    ``group`` numbers them from 0 on.

    >>> group_medians(np.array([1.0, 5.0, np.nan, 3.0]), np.array([0, 1, 1, 0]))
    array([2., 5., 5., 2.])
    """
    ordered = values[np.lexsort((values, group))]  # NaN come last in each group
    size, known = np.bincount(group), np.bincount(group, np.isfinite(values)).astype(np.int64)
    last = np.cumsum(size) - 1
    first = last - size + 1
    low = ordered[np.minimum(first + np.maximum(known - 1, 0) // 2, values.size - 1)]
    high = ordered[np.minimum(first + known // 2, last)]
    middle: Floats = np.where(known > 0, (low + high) / 2, np.nan)
    return middle[group]


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


def deviation(values: Floats) -> float:
    """Standard deviation that the median distance from the median shows; NaN if none is finite."""
    return TO_SIGMA * finite_median(np.abs(values - finite_median(values)))


def row_deviations(values: Floats) -> Floats:
    """:func:`deviation` of each row of ``values`` (rows, columns), without its missing values."""
    found: Floats = TO_SIGMA * nanmedian(
        np.abs(values - nanmedian(values, axis=1)[:, None]), axis=1
    )
    return found


def spread(values: Floats) -> Floats:
    """Standard deviation of each row that a lasting change does not inflate, shape (rows,).

    Nor does a change in every other step.
    """
    apart = (values[:, far:] - values[:, :-far] for far in (1, 2) if values.shape[1] > far)
    between = [nanmedian(np.abs(one), axis=1) * TO_SIGMA / np.sqrt(2) for one in apart]
    least: Floats = np.fmin.reduce([row_deviations(values), *between])
    return least

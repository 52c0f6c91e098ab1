"""Rates over time: the bytes of flow records, spread evenly over each record's duration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def binned_bytes(row: Ints, start: Floats, end: Floats, size: Floats, shape: tuple[int, int],
                 edges: tuple[float, float]) -> Floats:  # fmt: skip
    """Bytes of each row in each of equally long bins.

    Parameters
    ----------
    row : row of each record; one below 0 is ignored.
    start, end, size : times of each record, and its bytes.
    shape : rows, bins.
    edges : begin of the first bin and end of the last one.
    """
    rows, bins = shape
    first, last = edges
    width = max(last - first, 1e-9) / bins
    known = row >= 0
    row, size = row[known], size[known]
    begin, stop = ((at[known] - first) / width for at in (start, end))
    low = np.clip(begin.astype(np.int64), 0, bins - 1)
    high = np.clip(stop.astype(np.int64), low, bins - 1)
    length = np.maximum(stop - begin, 1e-12)
    result = np.zeros(rows * bins)
    for ahead in range(int((high - low).max(initial=0)) + 1):
        here = low + ahead
        inside = np.minimum(stop, here + 1) - np.maximum(begin, here)
        share = np.where(high == low, 1.0, np.clip(inside / length, 0.0, 1.0))
        result += np.bincount(row * bins + here, size * share, rows * bins)
        more = high > here
        row, low, high = row[more], low[more], high[more]
        size, begin, stop, length = size[more], begin[more], stop[more], length[more]
    return result.reshape(rows, bins)

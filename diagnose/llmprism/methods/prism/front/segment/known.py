"""Statistics of values of which some are missing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from llmprism.numerics.arrays import Floats


def median_known(values: Floats, axis: int | None = None, keepdims: bool = False) -> Any:
    """Median of the values that are not NaN along ``axis``; NaN where all are.

    >>> float(median_known(np.array([1.0, np.nan, 3.0])))
    2.0
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmedian(values, axis=axis, keepdims=keepdims)

"""Medians and quantiles of series with missing values are those of numpy, to the last bit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import (
    deviation,
    nanmedian,
    nanquantile,
)

VALUES = st.floats(-1e18, 1e18) | st.just(np.nan) | st.sampled_from([0.0, 1.0, 3.0])
SERIES = arrays(np.float64, array_shapes(min_dims=1, max_dims=3, max_side=9), elements=VALUES)


@given(values=SERIES, share=st.sampled_from([0.05, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1))
def test_a_quantile_is_that_of_numpy(values: Floats, share: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of series without a value
        expected = np.nanquantile(values, share, axis=-1)
    np.testing.assert_array_equal(nanquantile(values, share), expected)


@given(values=SERIES)
def test_a_median_is_that_of_numpy(values: Floats) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.nanmedian(values, axis=-1)
    np.testing.assert_array_equal(nanmedian(values, -1), expected)


def test_the_deviation_of_a_normal_distribution_is_its_own() -> None:
    drawn = 7.0 + 3.0 * np.random.default_rng(1).standard_normal(20_000)
    with_missing = np.concatenate((drawn, [np.nan, np.inf]))
    assert deviation(with_missing) == pytest.approx(3.0, rel=0.03)
    assert deviation(np.full(5, 2.0)) == 0.0
    assert np.isnan(deviation(np.array([np.nan])))

"""The k-sigma rule, its traps included."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.methods.paper.sigma import k_sigma


def one_sample(values: list[float], **how: float) -> list[int]:
    numbers = np.array(values, dtype=np.float64)
    return np.flatnonzero(k_sigma(numbers, np.zeros(numbers.size, int), **how).flagged).tolist()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_trap_1_the_printed_sigma_is_zero(values: list[float]) -> None:
    printed = math.fsum(x - math.fsum(values) / len(values) for x in values) / len(values)
    assert printed == pytest.approx(0, abs=1e-6)


def test_sigma_is_the_population_standard_deviation() -> None:
    values = np.array([2.0, 4, 4, 4, 5, 5, 7, 9])  # mean 5, standard deviation exactly 2
    out = k_sigma(values, np.zeros(8, int))
    np.testing.assert_allclose(out.distance, (values - 5) / 2)


@pytest.mark.parametrize(("n", "fires"), [(5, False), (10, False), (11, True), (30, True)])
def test_trap_2_no_outlier_fires_below_eleven(n: int, fires: bool) -> None:
    """One of n values is at most sqrt(n - 1) sigma from the mean: 3 for n = 10."""
    assert one_sample([1.0] * (n - 1) + [1e6]) == ([n - 1] if fires else [])


@pytest.mark.parametrize(("hit", "fires"), [(9, True), (10, False), (25, False)])
def test_trap_2_an_equal_fault_of_a_tenth_is_never_found(hit: int, fires: bool) -> None:
    values = [1.0] * (100 - hit) + [50.0] * hit
    assert bool(one_sample(values)) == fires


def test_the_rule_watches_one_side() -> None:
    high, low = [10.0] * 20 + [90.0], [10.0] * 20 + [1.0]
    assert one_sample(high) == [20]
    assert one_sample(low) == []
    assert one_sample(low, sign=-1.0) == [20]
    assert one_sample(high, sign=-1.0) == []


def test_equal_values_never_fire() -> None:
    assert one_sample([3.3] * 50) == []


def test_rounding_never_fires() -> None:
    assert one_sample([1e9] * 30 + [1e9 + 2], resolution=2.0) == []
    assert one_sample([1e9] * 30 + [1e9 + 3], resolution=2.0) == [30]


def test_samples_are_kept_apart_and_normal_leaves_outliers_out() -> None:
    values = np.array([1.0] * 12 + [5.0] + [100.0, 101.0])
    sample = np.array([0] * 13 + [2, 2])
    out = k_sigma(values, sample)
    assert np.flatnonzero(out.flagged).tolist() == [12]
    np.testing.assert_allclose(out.normal, [1.0] * 13 + [100.5, 100.5])


def test_confidence_follows_cantelli() -> None:
    out = k_sigma(np.array([0.0] * 99 + [1.0]), np.zeros(100, int))
    assert out.confidence[-1] == pytest.approx(0.99)  # sqrt(99) sigma out
    assert (out.confidence[:-1] < 0.02).all()

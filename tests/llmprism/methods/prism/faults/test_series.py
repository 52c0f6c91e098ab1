"""Values against their healthy ones, where a coarse clock shows no time at all."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from llmprism.methods.prism.faults.series import judged


@pytest.mark.parametrize("slow", [0.0, 1.0])
def test_nothing_stands_out_from_values_that_a_clock_rounds_to_zero(slow):
    values = np.zeros((3, 40))
    values[1, 20:25] = slow
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = judged(values, 0.05)
    assert not found.out.any()


def test_a_series_stands_out_from_its_own_healthy_values_beside_one_of_zeros():
    values = np.vstack([np.zeros(40), np.full(40, 2.0)])
    values[1, 20:25] = 3.0
    assert np.flatnonzero(judged(values, 0.05).out[1]).tolist() == [20, 21, 22, 23, 24]

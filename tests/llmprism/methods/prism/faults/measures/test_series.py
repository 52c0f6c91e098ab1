"""Values against their healthy ones, where a coarse clock shows no time at all."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.series import bridged, excess_of, healthy, judged


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


def test_a_small_shift_counts_if_it_lasts():
    """One of four deviations: no step stands out by itself, and all of them do together."""
    values = np.random.default_rng(4).normal(1.0, 0.01, (1, 60))
    values[0, 30:42] += 0.04
    assert not judged(values, 0.01).lasting[0, 30:42].all()
    found = np.flatnonzero(judged(values, 0.01, levels=True).lasting[0])
    assert set(found) <= set(range(30, 42))
    assert found.size >= 10


def test_noise_shows_no_level():
    values = np.random.default_rng(5).normal(1.0, 0.01, (200, 60))
    assert not judged(values, 0.0, levels=True).lasting.any()


def test_a_shift_may_last_for_all_steps_but_the_first_few():
    values = np.random.default_rng(6).normal(1.0, 0.01, (1, 40))
    values[0, 6:] += 0.3
    assert np.flatnonzero(judged(values, 0.03).lasting[0]).tolist() == [*range(6, 40)]


def test_values_that_grow_slowly_have_no_healthy_first_steps():
    values = np.linspace(1.0, 1.2, 40)[None, :]
    assert healthy(values)[0] == pytest.approx(1.05, abs=0.001)


def test_steps_of_which_nothing_is_known_do_not_end_a_stretch():
    values = np.random.default_rng(7).normal(1.0, 0.01, (1, 40))
    values[0, 10:22] += 0.3
    values[0, [12, 13, 14, 17, 18]] = np.nan
    found = judged(values, 0.03)
    expected = [step for step in range(10, 22) if np.isfinite(values[0, step])]
    assert np.flatnonzero(found.lasting[0]).tolist() == expected
    known = np.isfinite(values)
    assert np.flatnonzero(bridged(found.lasting, known)[0]).tolist() == [*range(10, 22)]


def test_the_noise_of_a_series_that_comes_and_goes_is_that_of_its_quiet_steps():
    """Two of three differences between its neighbouring steps are those of the fault."""
    values = np.random.default_rng(7).normal(1.0, 0.01, (8, 60))
    slow = np.flatnonzero(np.arange(60) % 3 == 1)[:16]
    values[2, slow] += 0.14
    found = judged(values, 0.02, peers=True)
    assert found.noise[2] < 0.025
    assert np.flatnonzero(found.out[2]).tolist() == slow.tolist()
    assert not np.delete(found.out, 2, axis=0).any()


def test_times_of_one_message_in_a_step_are_left_as_they_are():
    """They are kept, and measured again: a view of them must not be changed."""
    times = np.full((2, 30, 1), 100.0)
    times[0, 20:25] = 130.0
    before = times.copy()
    excess, known = excess_of(times)
    np.testing.assert_array_equal(times, before)
    assert excess[0, 20:25].tolist() == [30.0] * 5
    assert known.tolist() == [[1] * 30] * 2

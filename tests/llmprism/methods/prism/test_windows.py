"""Windows of a series: planted deviations are found, and chance is not."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.windows import best_window, largest_sums, penalty

ERROR = 0.01


def noise(steps: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, ERROR, steps)


@pytest.mark.parametrize(("first", "last"), [(0, 3), (5, 5), (10, 29), (25, 29)])
@pytest.mark.parametrize("level", [0.1, 0.5, 3.0])
def test_a_planted_level_is_found_at_its_steps(first: int, last: int, level: float) -> None:
    series = noise(30, 1)
    series[first : last + 1] += level
    window = best_window(series, ERROR)
    assert (window.first, window.last) == (first, last)
    assert window.level == pytest.approx(level, rel=0.5)


def test_pauses_in_every_other_step_are_one_window() -> None:
    series = noise(40, 2)
    series[10:30:2] += 0.4
    window = best_window(series, ERROR)
    assert (window.first, window.last, window.shape) == (10, 28, "pauses")


def test_a_step_that_is_much_faster_is_no_window_of_slow_ones() -> None:
    series = noise(30, 6)
    series[7] = -0.6
    assert best_window(series, ERROR).ratio < penalty(1, 30)


def test_unknown_steps_say_nothing() -> None:
    series = noise(20, 4)
    series[8:12] += 0.2
    series[10] = np.nan
    window = best_window(series, ERROR)
    assert (window.first, window.last) == (8, 11)


def test_chance_exceeds_the_penalty_as_seldom_as_the_user_asks() -> None:
    """One false finding in 1,000 job-steps is 0.03 of a recording of 30 steps."""
    steps, recordings = 30, 600
    bar = penalty(1, steps)
    false = sum(best_window(noise(steps, 100 + i), ERROR).ratio > bar for i in range(recordings))
    accepted = steps / 1000
    assert false <= recordings * accepted + 3 * np.sqrt(recordings * accepted)


def test_the_penalty_grows_with_the_logarithm_of_the_groups() -> None:
    assert penalty(80, 30) - penalty(8, 30) == pytest.approx(np.log(10))


@pytest.mark.parametrize("seed", range(5))
def test_largest_sums_are_those_of_all_parts(seed: int) -> None:
    gains = np.random.default_rng(seed).normal(size=(3, 12))
    sums, first, last = largest_sums(gains)
    for row in range(3):
        every = [gains[row, a : b + 1].sum() for a in range(12) for b in range(a, 12)]
        assert sums[row] == pytest.approx(max(every))
        assert gains[row, first[row] : last[row] + 1].sum() == pytest.approx(max(every))

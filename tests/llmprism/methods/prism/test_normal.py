"""What steps take when nothing is wrong: the fast common level, and periodic steps."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.normal import fast_level, normal_of, periodic_steps

NOISE = 1.0


def steps(count: int, seed: int = 1) -> np.ndarray:
    return 1000 + np.random.default_rng(seed).normal(0.0, NOISE, count)


@pytest.mark.parametrize("slow", [5, 15, 20])
def test_the_level_is_that_of_healthy_steps_however_many_are_slow(slow: int) -> None:
    length = steps(26)
    length[:slow] += 300
    assert fast_level(length, NOISE) == pytest.approx(1000, abs=2 * NOISE)


def test_without_a_faster_group_the_level_is_the_median() -> None:
    length = steps(40)
    assert fast_level(length, NOISE) == np.median(length)


def test_one_step_that_was_cut_off_is_no_healthy_group() -> None:
    length = steps(20)
    length[-1] = 100
    assert fast_level(length, NOISE) == pytest.approx(1000, abs=2 * NOISE)


@pytest.mark.parametrize(("period", "first"), [(2, 0), (4, 1), (9, 8)])
def test_steps_that_are_longer_at_equal_distances_are_a_habit(period: int, first: int) -> None:
    longer = steps(36) - 1000
    longer[first::period] += 50
    found = periodic_steps(longer, NOISE)
    assert (found > 0).tolist() == [step % period == first for step in range(36)]


@pytest.mark.parametrize("length", [6, 20])
def test_a_level_that_lasts_is_no_habit(length: int) -> None:
    """Its steps have equal distances as well."""
    longer = steps(50) - 1000
    longer[17 : 17 + length] += 500
    assert not periodic_steps(longer, NOISE).any()


def test_two_habits_have_a_number_each() -> None:
    longer = steps(60, seed=3) - 1000
    longer[4::10] += 50
    longer[7::15] += 200
    found = periodic_steps(longer, NOISE)
    assert len({*found[4::10].tolist()} - {*found[7::15].tolist()}) >= 1
    assert (found[7::15] > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_habit(seed: int) -> None:
    assert not periodic_steps(steps(60, seed) - 1000, NOISE).any()


def test_each_kind_of_steps_has_a_level_of_its_own() -> None:
    length = steps(30)
    kind = (np.arange(30) % 3 == 0).astype(np.int64)
    length[kind == 1] += 500
    normal = normal_of(length, kind, 0.0)
    assert np.abs(normal.longer_ns).max() < 6 * NOISE
    assert normal.healthy.mean() > 0.9

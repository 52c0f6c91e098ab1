"""Two levels of the lengths of steps show a change that no step shows alone."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.two_levels import upper_run

SLOW = slice(10, 18)


def lengths_ns(seed: int, factor: float, noise: float, steps: int = 28) -> np.ndarray:
    length_ns = 1e8 * (1 + noise * np.random.default_rng(seed).standard_normal(steps))
    length_ns[SLOW] *= factor
    return length_ns


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("factor", "noise"), [(1.04, 0.003), (1.12, 0.025)])
def test_the_steps_of_the_upper_level_are_found(seed, factor, noise):
    run = upper_run(lengths_ns(seed, factor, noise))
    assert run is not None
    assert abs(run[0] - SLOW.start) <= 1
    assert abs(run[1] - (SLOW.stop - 1)) <= 1


def test_single_steps_of_another_length_do_not_hide_two_levels():
    length_ns = lengths_ns(0, 1.12, 0.025)
    length_ns[[5, 21, 22]] = [3e8, 0.2e8, 0.9e8]
    assert upper_run(length_ns) == (SLOW.start, SLOW.stop - 1)


@pytest.mark.parametrize("seed", range(100))
def test_steps_that_only_vary_have_no_two_levels(seed):
    assert upper_run(lengths_ns(seed, 1.0, 0.03)) is None


def test_what_comes_again_and_again_is_no_run():
    """Two jobs that share links slow each other down whenever their collectives coincide."""
    assert upper_run(1e8 * (1.2 + 0.1 * np.sin(np.arange(28) * 2 * np.pi / 9))) is None


def test_steps_that_are_short_at_the_end_only_are_no_slow_run():
    length_ns = lengths_ns(0, 1.0, 0.003)
    length_ns[:20] *= 1.1
    assert upper_run(length_ns) is None


def test_where_steps_vary_much_other_work_of_a_host_may_last_too():
    length_ns = lengths_ns(0, 1.3, 0.08)
    assert upper_run(length_ns) is None


@pytest.mark.parametrize("seed", range(5))
def test_uneven_work_varies_in_the_upper_level_alone(seed):
    length_ns = lengths_ns(seed, 1.0, 0.01)
    length_ns[SLOW] *= 1 + np.random.default_rng(seed).uniform(0.04, 0.5, 8)
    run = upper_run(length_ns)
    assert run is not None
    assert abs(run[0] - SLOW.start) <= 1
    assert abs(run[1] - (SLOW.stop - 1)) <= 1


def test_a_coarse_clock_does_not_hide_two_levels():
    """Lengths of healthy steps are rounded to one tick more now and then."""
    ticks = np.full(28, 62)
    ticks[[2, 4, 7]] += 1
    ticks[10:] += np.tile([2, 4, 6, 5, 3, 7], 3)
    length_ns = 1.6e6 * ticks
    assert upper_run(length_ns) is None
    assert upper_run(length_ns, 1.6e6) == (10, 27)

"""A slow stretch is believed if its steps are longer by a share and by more than they vary."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.suspects.cost import (
    Cost,
    cost_at,
    cost_of,
    healthy_share,
    widened,
)

STEP_NS = 30e9


def believed(longer: float, slow: int, varies: float, seed: int = 1) -> bool:
    """The verdict on ``slow`` steps in the middle of 60 that vary by a share."""
    steps = STEP_NS * (1 + varies * np.random.default_rng(seed).standard_normal(60))
    first = 30 - slow // 2
    steps[first : first + slow] += longer * STEP_NS
    job = job_of(steps)
    return cost_of(job, first, first + slow - 1).believed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("longer", "slow", "varies", "expected"),
    [
        (0.02, 3, 0.002, True),
        (0.02, 3, 0.05, False),  # less than the steps vary
        (0.009, 20, 0.002, True),  # small, but in many steps
        (0.009, 3, 0.002, False),  # small, and in few
        (0.003, 20, 0.006, False),  # small, and not far beyond what the steps vary
        (0.001, 20, 0.0001, False),  # too small to matter
    ],
)
def test_a_small_loss_needs_many_steps(
    longer: float, slow: int, varies: float, expected: bool, seed: int
) -> None:
    assert believed(longer, slow, varies, seed) == expected


def test_steps_that_are_no_longer_cost_nothing() -> None:
    assert not any(believed(0.0, 20, 0.002, seed) for seed in range(50))


def job_of(steps_ns: np.ndarray, tick_ns: float = 0.0) -> Any:
    return SimpleNamespace(between_ends_ns=steps_ns, count=steps_ns.size, tick_ns=tick_ns)


def steps_with(fault: dict[int, float], every: int = 0, seed: int = 1) -> np.ndarray:
    """28 steps that vary by a hundredth, some longer by a share, every so many twice as long."""
    steps = STEP_NS * (1 + 0.01 * np.random.default_rng(seed).standard_normal(28))
    for step, share in fault.items():
        steps[step] += share * STEP_NS
    if every:
        steps[every::every] += STEP_NS
    return steps


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("every", [0, 3, 5, 7])
@pytest.mark.parametrize("last", [15, 17])
def test_checkpoints_within_a_stretch_are_no_cost_of_it(last: int, every: int, seed: int) -> None:
    fault = dict.fromkeys(range(9, last + 1), 0.4)
    cost = cost_of(job_of(steps_with(fault, every, seed)), 9, last)
    assert cost.believed
    assert cost.lost_ns == pytest.approx(0.4 * len(fault) * STEP_NS, rel=0.08)


def test_steps_that_are_long_now_and_then_recur_at_no_interval() -> None:
    steps = steps_with(dict.fromkeys(range(9, 16), 0.4))
    steps[[2, 7, 20, 25]] += STEP_NS
    cost = cost_of(job_of(steps), 9, 15)
    assert cost.lost_ns == pytest.approx(0.4 * 7 * STEP_NS, rel=0.08)


@pytest.mark.parametrize("seed", range(5))
def test_a_stretch_has_the_slow_steps_at_its_edges(seed: int) -> None:
    steps = steps_with({9: 0.15} | dict.fromkeys(range(10, 16), 0.4) | {16: 0.2}, 0, seed)
    assert widened(job_of(steps), 10, 14, (0, 27)) == (9, 16)
    assert widened(job_of(steps), 10, 14, (10, 15)) == (10, 15)


@pytest.mark.parametrize("seed", range(5))
def test_the_end_of_a_long_stretch_leads_to_its_begin(seed: int) -> None:
    steps = steps_with(dict.fromkeys(range(12, 28), 0.4), 0, seed)
    assert widened(job_of(steps), 18, 27, (0, 27)) == (12, 27)


@pytest.mark.parametrize("seed", range(5))
def test_healthy_steps_and_checkpoints_are_not_at_the_edge_of_a_stretch(seed: int) -> None:
    steps = steps_with(dict.fromkeys(range(10, 15), 0.4), 5, seed)
    assert widened(job_of(steps), 10, 14, (0, 27)) == (10, 14)


@pytest.mark.parametrize("seed", range(5))
def test_a_job_that_gets_faster_before_a_stretch_was_not_slow_before_it(seed: int) -> None:
    """As the real job of d_fault_rank_link, which warms up until its rank becomes slow."""
    steps = steps_with(dict.fromkeys(range(12, 20), 0.6), 0, seed)
    steps[2:12] += np.linspace(0.5, 0.15, 10) * np.median(steps[20:])
    assert widened(job_of(steps), 12, 19, (0, 27)) == (12, 19)


def test_where_the_clock_is_coarse_a_step_takes_the_mean_of_rounded_ones() -> None:
    steps = np.where(np.arange(28) % 2, 27e6, 28e6)
    steps[8:18] += 9e6
    cost = cost_of(job_of(steps, 1e6), 8, 17)
    assert cost.lost_ns == pytest.approx(90e6, rel=0.01)


@pytest.mark.parametrize("every", [0, 5])
def test_single_steps_are_compared_with_all_others(every: int) -> None:
    steps = steps_with({4: 0.3, 12: 0.6, 20: 0.3}, every)
    cost = cost_at(job_of(steps), np.array([4, 12, 20]))
    assert cost.believed
    assert cost.lost_ns == pytest.approx(1.2 * STEP_NS, rel=0.08)


def test_pauses_cost_time_in_steps_that_are_long_anyway() -> None:
    """Every fifth step is longer, and all steps from 12 to 27 lose a quarter of a step as well."""
    slow = dict.fromkeys(range(12, 28), 0.25)
    job = job_of(steps_with(slow, 5)[:28])
    paused = np.array([step for step in slow if step % 5])
    assert cost_at(job, paused).lost_ns == pytest.approx(16 * 0.25 * STEP_NS, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_and_goes_costs_time_in_the_steps_between_as_well(seed: int) -> None:
    between = dict.fromkeys(range(9, 19), 0.04)
    pauses = {8: 0.3, 11: 0.3, 15: 0.3, 19: 0.3}
    cost = cost_at(job_of(steps_with(between | pauses, seed=seed)), np.array([*pauses]))
    assert cost.lost_ns == pytest.approx((4 * 0.3 + 8 * 0.04) * STEP_NS, rel=0.08)


@pytest.mark.parametrize("share", [0.4, 0.5, 0.6])
def test_a_coarse_clock_rounds_half_of_the_steps_up(share: float) -> None:
    """Steps of about 27.5 ms last 27 or 28 ms; none of them is unusual."""
    ends_ns = np.floor(np.arange(41) * (27 + share)) * 1e6
    steps_ns = np.diff(ends_ns)
    steps_ns[20:30] += 9e6
    lost_ns = cost_of(job_of(steps_ns, 1e6), 20, 29).lost_ns
    assert lost_ns == pytest.approx(90e6, abs=2e6)


@pytest.mark.parametrize("first", [9, 6])
def test_checkpoints_in_a_stretch_to_the_end_are_no_cost_of_it(first: int) -> None:
    """One checkpoint before the stretch, or beside it, is at the interval of those in it."""
    steps = STEP_NS * (1 + 0.005 * np.random.default_rng(3).standard_normal(28))
    steps[5::5] += 2 * STEP_NS
    steps[first:] += 0.1 * STEP_NS
    job = job_of(steps)
    cost = cost_of(job, first, 27)
    assert cost.lost_ns == pytest.approx((28 - first) * 0.1 * STEP_NS, rel=0.1)


def test_pauses_at_an_interval_that_began_with_the_stretch_are_its_cost() -> None:
    steps = STEP_NS * (1 + 0.005 * np.random.default_rng(3).standard_normal(28))
    steps[9::3] += 0.5 * STEP_NS
    job = job_of(steps)
    cost = cost_of(job, 9, 27)
    assert cost.lost_ns == pytest.approx(7 * 0.5 * STEP_NS, rel=0.1)


def test_both_edges_of_a_stretch_are_no_checkpoints() -> None:
    """They are as long as it is, ten steps or twenty from each other, and nothing else recurs."""
    steps_ns = STEP_NS * (1 + 0.003 * np.random.default_rng(2).standard_normal(28))
    steps_ns[7:28] *= 1.3
    assert widened(job_of(steps_ns), 8, 26, (0, 27)) == (7, 27)


def test_one_long_step_beside_a_usual_one_is_no_stretch() -> None:
    job = job_of(steps_with({14: 0.12}))
    assert not cost_of(job, 14, 15).believed
    assert cost_of(job_of(steps_with({14: 0.12, 15: 0.12})), 14, 15).believed


def test_every_other_step_that_is_longer_counts_where_a_clock_is_coarse() -> None:
    """Most steps around are equal then, and so is the middle step of the stretch."""
    steps_ns = np.full(28, 34e6)
    steps_ns[12:20:2] += 5e6
    assert cost_of(job_of(steps_ns, 1e6), 12, 19).share == pytest.approx(5 * 3 / 7 / 34)


def test_what_rounding_alone_makes_of_equal_steps_costs_nothing() -> None:
    ends_ns = np.floor(np.arange(1, 60) * 33.2) * 1e6
    job = job_of(np.diff(ends_ns), 1e6)
    assert not any(cost_of(job, first, first + 3).believed for first in range(1, 50))


def test_a_step_of_unknown_length_is_at_no_edge_of_a_stretch() -> None:
    steps = steps_with(dict.fromkeys(range(10, 15), 0.4))
    steps[9] = np.nan
    assert widened(job_of(steps), 10, 14, (0, 27)) == (10, 14)


def test_a_stop_is_believed_however_soon_the_records_end() -> None:
    """Where nothing is exported after the last transfer, a fraction of a step is seen of it."""
    assert Cost(STEP_NS, 1.005 * STEP_NS, 0.005 * STEP_NS, np.inf).believed
    assert not Cost(STEP_NS, STEP_NS, 0.0, np.inf).believed


@pytest.mark.parametrize("seed", range(5))
def test_checkpoints_that_overlap_with_what_is_slow_are_no_cost_of_it(seed: int) -> None:
    """A checkpoint takes a step; in the stretch it hides half of what is slow."""
    steps = steps_with(dict.fromkeys(range(12, 28), 1.4), 5, seed)
    steps[[15, 20, 25]] -= 0.5 * STEP_NS
    cost = cost_of(job_of(steps), 12, 27)
    assert cost.lost_ns == pytest.approx((16 * 1.4 - 3 * 0.5) * STEP_NS, rel=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_a_spike_beside_a_stretch_is_none_of_its_steps(seed: int) -> None:
    steps = steps_with(dict.fromkeys(range(10, 18), 0.06) | {9: 0.5, 18: 0.06}, 0, seed)
    assert widened(job_of(steps), 10, 17, (0, 27)) == (10, 18)


@pytest.mark.parametrize(("first", "share"), [(20, 1.0), (8, 1 / 6.3)])
def test_a_healthy_step_is_a_share_of_a_slow_one_if_most_are_slow(first: int, share: float) -> None:
    steps = steps_with(dict.fromkeys(range(first, 28), 5.3))
    job = SimpleNamespace(duration_ns=steps, period_ns=float(np.median(steps)))
    assert healthy_share(job) == pytest.approx(share, rel=0.02)

"""Finding step gaps in sequences of flow starts."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.paper.cutting import cut_steps
from llmprism.numerics.arrays import Floats, Ints, grouped


def cut(starts: list[float] | Floats, lengths: float | Floats = 0.0) -> Ints:
    """Steps of one sequence; times in ms."""
    start_ns = np.rint(np.asarray(starts) * 1e6).astype(np.int64)
    end_ns = start_ns + np.rint(np.broadcast_to(lengths, start_ns.shape) * 1e6).astype(np.int64)
    return cut_steps(start_ns, end_ns, grouped(np.zeros(start_ns.size), 1)).step


def periodic(within: Floats, gap: float, steps: int, jitter: float, seed: int) -> Floats:
    """Starts of flows: in each step the intervals ``within``, then ``gap``."""
    intervals = np.tile(np.append(within, gap), steps)
    intervals *= np.random.default_rng(seed).lognormal(0, jitter, intervals.size)
    return np.concatenate(([0.0], np.cumsum(intervals)[:-1]))


def spread(flows: int, seed: int) -> Floats:
    """Intervals between ``flows`` flows that differ by up to three times."""
    return np.random.default_rng(seed).uniform(1.0, 3.0, flows - 1)


@pytest.mark.parametrize("jitter", [0.0, 0.03])
@pytest.mark.parametrize("ratio", [7, 20, 100, 1000])
@pytest.mark.parametrize("flows", [2, 3, 4, 7, 20, 60])
def test_steps_are_found_in_any_proportion(flows: int, ratio: float, jitter: float) -> None:
    for seed in range(4):
        within = spread(flows, seed)
        starts = periodic(within, ratio * within.max(), 20, jitter, seed)
        np.testing.assert_array_equal(cut(starts), np.arange(starts.size) // flows)


@pytest.mark.parametrize("flows", [3, 4, 7, 20, 60])
def test_five_times_is_enough_from_three_flows_on(flows: int) -> None:
    starts = periodic(np.ones(flows - 1), 5.0, 20, 0.0, 0)
    np.testing.assert_array_equal(cut(starts), np.arange(starts.size) // flows)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_the_unit_of_time_does_not_matter(scale: float) -> None:
    within = np.array([1.0, 2.5, 1.5])
    starts = periodic(within * scale, 40 * scale, 15, 0.0, 0)
    np.testing.assert_array_equal(cut(starts), np.arange(starts.size) // 4)


def test_a_pipeline_that_fills_and_runs_steadily_is_one_step() -> None:
    within = np.array([1.0] * 7 + [3.0] * 24)  # warm-up forwards, then one of each
    starts = periodic(within, 60.0, 12, 0.0, 0)
    np.testing.assert_array_equal(cut(starts), np.arange(starts.size) // 32)


def test_one_flow_a_step_cannot_be_cut() -> None:
    assert not cut(np.arange(30) * 100.0).any()


def test_flows_that_start_together_are_one_event() -> None:
    starts = periodic(np.array([2.0, 3.0, 2.0]), 100.0, 10, 0.0, 0)
    twice = np.repeat(starts, 2)
    nearly = twice + np.tile([0.0, 0.1], starts.size)  # of flows that last 2
    expected = np.repeat(np.arange(starts.size) // 4, 2)
    np.testing.assert_array_equal(cut(twice), expected)
    np.testing.assert_array_equal(cut(nearly, 2.0), expected)


def test_far_from_together_is_not_one_event() -> None:
    starts = np.array([0.0, 0.5, 30.0, 30.5, 60.0, 60.5, 90.0, 90.5])
    np.testing.assert_array_equal(cut(starts, 2.0), [0, 0, 1, 1, 2, 2, 3, 3])


def test_where_gaps_are_long_a_pause_is_no_gap() -> None:
    within = np.array([0.5, 6.0, 1.0, 1.0, 1.0, 1.0])
    starts = periodic(within, 500.0, 12, 0.0, 0)
    np.testing.assert_array_equal(cut(starts), np.arange(starts.size) // 7)


def test_a_change_of_pace_ends_no_steps() -> None:
    slow = periodic(np.full(5, 4.0), 100.0, 10, 0.0, 0)
    fast = periodic(np.full(5, 1.0), 100.0, 10, 0.0, 0)
    starts = np.concatenate((fast, fast[-1] + 100.0 + slow))
    np.testing.assert_array_equal(cut(starts), np.arange(starts.size) // 6)


def test_groups_are_cut_on_their_own() -> None:
    a = periodic(np.array([1.0, 1.0]), 50.0, 4, 0.0, 0)
    b = periodic(np.array([7.0, 7.0, 7.0]), 500.0, 3, 0.0, 0)
    order = np.argsort(np.concatenate((a, b)), kind="stable")
    starts = np.rint(np.concatenate((a, b))[order] * 1e6).astype(np.int64)
    owner = np.repeat([0, 1], [a.size, b.size])[order]
    by = grouped(owner, 3)
    cuts = cut_steps(starts, starts, by)
    np.testing.assert_array_equal(cuts.step, [*(np.arange(12) // 3), *(np.arange(12) // 4)])
    opened = np.flatnonzero(cuts.sureness)
    assert opened.tolist() == [3, 6, 9, 12 + 4, 12 + 8]
    assert (cuts.sureness[opened] > 0.95).all()


@pytest.mark.parametrize("starts", [[], [5.0], [5.0, 6.0], [5.0, 5.0, 5.0]])
def test_too_little_to_cut(starts: list[float]) -> None:
    assert cut(starts).tolist() == [0] * len(starts)

"""Parts of one job take their steps together."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.jobs.together import in_step, whole_steps
from llmprism.methods.prism.segment.stepping import Part, Stepping
from rings import lines, stepping


@pytest.mark.parametrize("place", [0, 1, 13, 27])
def test_one_step_that_is_cut_in_two_anywhere_does_not_part_a_job(place):
    rng = np.random.default_rng(2)
    ends = np.cumsum(rng.normal(100, 2, 28))
    extra = np.sort(np.append(ends, ends[place] - 37.0))
    assert in_step(stepping(extra), stepping(ends + 1.5))
    assert in_step(stepping(ends + 1.5), stepping(extra))


@pytest.mark.parametrize("lost", [0, 5, 11])
@pytest.mark.parametrize("tick_ms", [0.001, 1])
def test_steps_of_equal_length_of_which_one_was_lost_keep_their_distance(lost, tick_ms):
    """Without the first or the last one the distances are as steady as each other."""
    ends = 60.2 * np.arange(1, 13)
    others = np.delete(ends + 0.7, lost)
    rounded = [np.round(own / tick_ms) * tick_ms for own in (ends, others)]
    one, other = (stepping(own) for own in rounded)
    assert in_step(one, other)
    assert in_step(other, one)


@pytest.mark.parametrize("seed", range(4))
def test_jobs_with_steps_of_nearly_equal_length_stay_apart(seed):
    """Their distance changes little in a dozen steps, but what steps add to it adds up."""
    rng = np.random.default_rng(seed)
    ends = [np.cumsum(rng.normal(length, 1.0, 16)) for length in (400.0, 399.2)]
    assert not in_step(stepping(ends[0]), stepping(ends[1] + 150))


@pytest.mark.parametrize(("apart_ms", "joined"), [(0, True), (40, False)])
def test_parts_that_take_a_few_steps_at_the_same_times_may_drift_by_chance(apart_ms, joined):
    """The distances are those of two replicas in a drawn world."""
    ends = 130.0 * np.arange(1, 5)
    other = ends + np.array([0.7, -0.9, 2.0, -2.9]) + apart_ms
    assert in_step(stepping(ends), stepping(other)) == joined


@pytest.mark.parametrize("seed", range(4))
def test_jobs_that_save_now_and_then_stay_apart(seed):
    """Saves make the distance jump from step to step, but it has a trend all the same."""
    rng = np.random.default_rng(seed)
    step = np.arange(14)
    one = np.cumsum(rng.normal(1250, 5, 14))
    other = one + 150 * (-1.0) ** step - 40 * step + rng.normal(0, 5, 14)
    assert not in_step(stepping(one), stepping(other))


@pytest.mark.parametrize("seed", range(4))
def test_clocks_that_drift_do_not_part_a_job(seed):
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.normal(400, 1.0, 16))
    others = ends * (1 + 1e-4) + rng.normal(150, 0.2, 16)
    assert in_step(stepping(ends), stepping(others))


def test_jobs_that_do_not_wait_for_each_other_stay_apart():
    rng = np.random.default_rng(3)
    ends = np.cumsum(rng.normal(100, 3, 29))
    others = np.cumsum(rng.normal(104, 3, 28))
    assert not in_step(stepping(ends), stepping(others))


def test_steps_of_parts_are_compared_by_all_of_their_traffic():
    """The reference of one part is gradients, that of the other one activations."""
    begins = np.arange(8) * 104.0  # later in each step
    steps = np.arange(8, dtype=np.int32)
    ends = np.arange(8) * 100.0 + 60
    classes = tuple(
        TrafficClass(np.array([i]), True, lines(times)) for i, times in enumerate((begins, ends))
    )
    parts = []
    for own in classes:
        start, end = own.traffic.start_ns, own.traffic.end_ns
        component = Component(np.array([0, 1], np.int32), classes)
        parts.append(Part(component, Stepping(8, 0.9, 0, (steps, steps), start, end)))
    assert not in_step(parts[0].stepping, parts[1].stepping)
    assert in_step(whole_steps(parts[0]), whole_steps(parts[1]))


def test_a_replica_that_becomes_slow_stays_in_its_job():
    """From the fourth step on, all steps take 60 ms longer, and one replica begins 10 ms later."""
    ends = np.cumsum([370.0, 367, 369, 430, 429, 431])
    other = ends + np.array([0.3, -0.4, -0.5, 9.6, 9.5, 10.2])
    assert in_step(stepping(ends), stepping(other))


@pytest.mark.parametrize("seed", range(4))
def test_jobs_that_vary_by_themselves_stay_apart(seed):
    rng = np.random.default_rng(seed)
    ends = [np.cumsum(rng.normal(400, 20, 20)) for _ in range(2)]
    assert not in_step(stepping(ends[0]), stepping(ends[1] + 30))

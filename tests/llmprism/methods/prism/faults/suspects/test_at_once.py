"""Two stretches that overlap: what each costs, and whether the steps show both."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.suspects.at_once import apart_ns, are_both_there, none_of

STEP_NS = 100.0


def steps_with(*stretches: tuple[int, int, float], count: int = 24) -> np.ndarray:
    """Steps of 100 ns, each stretch longer by some [ns]; they add up."""
    steps = np.full(count, STEP_NS)
    for first, last, longer in stretches:
        steps[first : last + 1] += longer
    return steps


def test_what_others_cost_alone_is_not_the_cost_of_the_steps_they_share() -> None:
    steps = steps_with((6, 12, 30.0), (10, 17, 50.0))
    assert apart_ns(steps, (10, 17), [(6, 12)]).tolist() == steps_with((10, 17, 50.0)).tolist()
    assert apart_ns(steps, (6, 12), [(10, 17)]).tolist() == steps_with((6, 12, 30.0)).tolist()


def test_of_a_stretch_that_is_never_alone_the_cost_is_what_the_other_one_leaves() -> None:
    steps = steps_with((6, 17, 30.0), (10, 13, 50.0))
    assert apart_ns(steps, (10, 13), [(6, 17)]).tolist() == steps_with((10, 13, 50.0)).tolist()
    assert apart_ns(steps, (6, 17), [(10, 13)]).tolist() == steps_with((6, 17, 30.0)).tolist()


def test_of_three_stretches_each_has_its_own_cost() -> None:
    steps = steps_with((3, 10, 10.0), (8, 15, 30.0), (13, 20, 60.0))
    for own in ((3, 10, 10.0), (8, 15, 30.0), (13, 20, 60.0)):
        others = [one for one in ((3, 10), (8, 15), (13, 20)) if one != own[:2]]
        assert apart_ns(steps, own[:2], others).tolist() == steps_with(own).tolist()


def test_the_step_beside_another_stretch_may_be_slow_in_part_for_the_other_one() -> None:
    steps = steps_with((6, 15, 10.0), (6, 13, 80.0))
    steps[14] += 40.0
    assert apart_ns(steps, (6, 13), [(6, 15)])[6:14].tolist() == [STEP_NS + 80.0] * 8


def test_where_both_have_the_same_steps_each_has_the_whole_cost() -> None:
    steps = steps_with((6, 12, 30.0))
    assert apart_ns(steps, (6, 12), [(6, 12)]).tolist() == steps.tolist()


def test_without_a_healthy_step_nothing_is_known() -> None:
    steps = steps_with((0, 11, 30.0), (10, 23, 50.0))
    assert apart_ns(steps, (0, 11), [(10, 23)]).tolist() == steps.tolist()


def test_steps_of_others_show_no_healthy_step() -> None:
    shown = none_of([(2, 4), (6, 7)], (4, 5), 9)
    assert np.flatnonzero(~shown).tolist() == [2, 3, 6, 7]


@pytest.mark.parametrize(
    ("one", "other", "there"),
    [
        ((6, 12, 10.0), (10, 17, 50.0), True),
        ((10, 17, 50.0), (6, 12, 10.0), True),
        ((6, 17, 10.0), (10, 13, 50.0), True),
        ((6, 12, 1.0), (10, 17, 50.0), False),  # steps of one alone are hardly longer
        ((10, 12, 10.0), (10, 17, 50.0), False),  # one level only
        ((6, 12, 10.0), (15, 20, 50.0), False),  # no step has both
    ],
)
def test_both_are_there_if_steps_have_two_levels(
    one: tuple[int, int, float], other: tuple[int, int, float], there: bool
) -> None:
    steps = steps_with(one, other)
    assert are_both_there(steps, one[:2], other[:2]) is there


def test_one_level_that_varies_is_no_second_one() -> None:
    steps = steps_with((6, 17, 40.0), (10, 13, 12.0))
    assert not are_both_there(steps, (6, 17), (10, 13))


def test_what_gets_slower_step_by_step_has_no_two_levels() -> None:
    """A rank that warms up is seen from its begin, and what waits for it when it is slow."""
    steps = steps_with((10, 17, 40.0))
    steps[6:10] += [8.0, 16.0, 24.0, 32.0]
    assert not are_both_there(steps, (6, 17), (9, 17))


def test_first_and_last_steps_may_be_slow_in_part() -> None:
    """A view of the same fault begins a step later and ends a step earlier."""
    steps = steps_with((6, 13, 50.0))
    steps[[6, 13]] -= 40.0
    assert not are_both_there(steps, (6, 13), (7, 12))

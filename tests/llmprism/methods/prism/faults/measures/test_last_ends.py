"""Who ends last in a collective: all others waited for it."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.last_ends import Ends

STEPS = 20
SLOW = range(8, 15)
FAMILY = np.array([0, 0, 0, 0, 1, 1])  # one ring of four hops, and one of two
TWINS = np.array([0, 0, 0, 0, 0, 0])  # two rings with the same hops between servers
RINGS = np.array([0, 0, 0, 1, 1, 1])


def ends_with(later, noise=1e-5, rounding=0.0, family=FAMILY, ring=FAMILY):
    """Ends of six connections, each later by so much in slow steps."""
    ends = np.random.default_rng(1).normal(0, noise, (len(later), STEPS))
    ends[:, SLOW.start : SLOW.stop] += np.array(later)[:, None]
    return Ends(family, ring, ends, rounding)


def shares_in(ends, lost=(0.2,) * 6, noise=0.0):
    every = np.random.default_rng(2).normal(0, noise, (6, STEPS))
    every[:, SLOW.start : SLOW.stop] += np.array(lost)[:, None]
    return ends.own_share(every, SLOW.start, SLOW.stop - 1).tolist()


def waiting_in(ends, lost=(0.2,) * 6, noise=0.0):
    return [share == 0 for share in shares_in(ends, lost, noise)]


def test_hops_wait_that_end_before_the_slow_ones():
    ends = ends_with([0.01, 0.01, 0.0, 0.0, 0.0, 0.0])
    lost = [0.2, 0.2, 0.19, 0.19, 0.2, 0.2]
    assert waiting_in(ends, lost) == [False, False, True, True, False, False]


def test_each_hop_after_the_slow_one_ends_a_chunk_earlier():
    ends = ends_with([0.0, 0.03, 0.02, 0.01, 0.0, 0.0])
    first, slow, second, third, *others = shares_in(ends, [0.17, 0.2, 0.19, 0.18, 0.2, 0.2])
    assert slow == 1.0 > second > third >= first == 0.0
    assert others == [1.0, 1.0]  # a ring that has nothing to do with it


def test_two_hops_may_be_slow_and_one_of_them_slower():
    """Both directions of a link lose messages, and the paths differ."""
    ends = ends_with([0.0035, 0.0018, 0.0, 0.0, 0.0, 0.0])
    assert waiting_in(ends, [0.2, 0.2, 0.1965, 0.1965, 0.2, 0.2])[:4] == [False, False, True, True]


def test_a_hop_that_always_ends_last_is_not_slow_for_that():
    ends = ends_with([0.0] * 6)
    ends.later[3] += 0.1
    assert not any(waiting_in(ends))


def test_ends_that_differ_by_chance_show_nothing():
    assert not any(waiting_in(ends_with([0.0] * 6, noise=0.01)))
    assert not any(waiting_in(ends_with([0.0004] * 2 + [0.0] * 4, rounding=0.001)))


def test_a_difference_that_no_round_explains_shows_nothing():
    """What a round lost, all rounds of the step lost together."""
    assert not any(waiting_in(ends_with([1e-4] + [0.0] * 5, noise=1e-7)))


def test_one_step_that_is_cut_in_two_decides_nothing():
    ends = ends_with([0.01, 0.0, 0.0, 0.0, 0.0, 0.0])
    ends.later[2, 10] += 0.5
    assert waiting_in(ends, [0.2] + [0.19] * 5)[:4] == [False, True, True, True]


def test_hops_that_lost_more_than_by_waiting_are_slow_themselves():
    """So are rings that have nothing to do with each other: the first ends before the second."""
    ends = ends_with([0.05, 0.05, 0.0, 0.0, 0.0, 0.0])
    assert not any(waiting_in(ends, lost=[0.2] * 6))


def test_hops_whose_records_show_silences_are_judged_by_their_own_speed():
    ends = ends_with([0.01, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert waiting_in(ends, lost=[0.5, 0.1, 0.49, 0.5, 0.0, 0.0])[:4] == [False, False, True, True]


def test_an_end_that_varies_little_is_not_late_beside_others_that_vary_more():
    ends = ends_with([0.0] * 6, noise=0.01)
    ends.later[0] = 0.004
    ends.later[0, SLOW.start : SLOW.stop] = 0.009
    assert not any(waiting_in(ends))


@pytest.mark.parametrize(("noise", "waits"), [(0.0, False), (0.02, True)])
def test_a_hop_that_lost_more_by_no_more_than_chance_makes_waits(noise, waits):
    """Its ranks begin the collective at times that vary."""
    ends = ends_with([0.01, 0.01, 0.0, 0.0, 0.0, 0.0])
    assert waiting_in(ends, [0.2, 0.2, 0.203, 0.19, 0.2, 0.2], noise)[2:4] == [waits, True]


def test_hops_of_a_slow_ring_wait_however_early_its_twin_ends():
    """The next part of the collective begins when both have ended."""
    ends = ends_with([0.041, 0.031, 0.031, -0.031, -0.031, -0.031], family=TWINS, ring=RINGS)
    lost = [0.51, 0.5, 0.48, 0.0, 0.0, 0.0]
    assert waiting_in(ends, lost)[:3] == [False, True, True]

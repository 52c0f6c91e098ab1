"""What a connection shows in steps that are known to be healthy is its healthy pace."""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.measures.rates import Rates
from llmprism.methods.prism.faults.measures.rejudged import rejudged
from llmprism.methods.prism.faults.measures.series import judged

STEPS, FIRST, LAST = 40, 5, 36
INSIDE = (np.arange(STEPS) >= FIRST) & (np.arange(STEPS) <= LAST)


def rates_of(slower):
    """One connection whose pace is so many times as long in most steps, but the first and last."""
    stream = np.random.default_rng(0)
    pace = np.where(INSIDE, slower, 1.0) * (1 + stream.normal(0, 0.01, STEPS))
    return Rates(
        kind=["dp"],
        group=np.array([-1]),
        conversation=np.array([0]),
        crosses=[frozenset({"a", "b"})],
        pace=judged(pace[None], 0.1),
        busy=pace[None],
        lost=pace[None] - 1,
        finest=np.zeros(1),
    )


def test_a_pace_that_is_slow_in_most_steps_is_not_the_healthy_one():
    rates = rates_of(3.0)
    assert not rates.pace.out.any()
    again = rejudged(rates, INSIDE, ~INSIDE)
    assert again.pace.out[0, INSIDE].all()
    assert np.nanmedian(again.pace.ratio[0, INSIDE]) > 2
    assert np.nanmedian(again.busy[0, INSIDE]) > 2


def test_what_is_slower_but_not_slow_clears_no_part():
    assert np.isnan(rejudged(rates_of(1.08), INSIDE, ~INSIDE).pace.ratio).all()


def test_what_is_as_fast_as_ever_is_healthy():
    again = rejudged(rates_of(1.0), INSIDE, ~INSIDE)
    assert np.isfinite(again.pace.ratio).all()
    assert not again.pace.out.any()


def test_too_few_healthy_steps_show_nothing():
    few = np.arange(STEPS) < 3
    assert np.isnan(rejudged(rates_of(3.0), INSIDE, few).pace.ratio).all()


def test_what_a_coarse_clock_makes_is_not_slow():
    rates = rates_of(1.5)
    coarse = Rates(**{**vars(rates), "coarse": np.array([0.2])})
    assert rejudged(rates, INSIDE, ~INSIDE).pace.out.any()
    assert not rejudged(coarse, INSIDE, ~INSIDE).pace.out.any()

"""Slow steps without a finding are listed; what a job does at equal distances is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.logged import Course, Pause
from llmprism.slow_steps import least_shown, slow_steps

STEP_NS = 500_000_000
NO_FINDING = pd.DataFrame({"job": [], "first_step": [], "last_step": []})


def table(lengths, addresses=4):
    ends = np.cumsum(np.array(lengths, float) * STEP_NS).astype(np.int64)
    one = pd.DataFrame({"step": range(len(ends)), "start_ns": np.r_[0, ends[:-1]], "end_ns": ends})
    own = [one.assign(job="job-0", address=f"10.0.0.{number}") for number in range(addresses)]
    return pd.concat(own, ignore_index=True)


def listed(lengths, findings=NO_FINDING):
    return [(one.first, one.last) for one in slow_steps(table(lengths), findings)]


def test_a_stretch_is_listed_with_its_size_and_cost():
    (found,) = slow_steps(table([1] * 5 + [1.4] * 2 + [1] * 8), NO_FINDING)
    assert (found.first, found.last) == (5, 6)
    assert found.longer == pytest.approx(0.4)
    assert found.lost_ns == pytest.approx(0.8 * STEP_NS)
    assert found.because({}) == "steps 5 to 6 of job-0: 40 % slower on all servers, cause unknown"


@pytest.mark.parametrize(("what", "share", "cause"), [
    ("evaluation", 1.0, "its log says: evaluation after iteration 8"),
    ("evaluation", 0.2, "cause unknown"), ("iteration", 1.0, "cause unknown"),
])  # fmt: skip
def test_a_pause_in_the_logs_that_lasts_long_enough_is_the_cause(what, share, cause):
    steps = table([1] * 9 + [2.5] + [1] * 11)
    pause = Pause(what, 8, 9 * STEP_NS, round((9 + 1.5 * share) * STEP_NS))
    (found,) = slow_steps(steps, NO_FINDING)
    assert found.because(Course(frozenset(), (pause,)).paused(steps)).endswith(cause)


def test_steps_of_a_finding_and_beside_it_are_not_listed():
    lengths = [1] * 4 + [1.25] * 4 + [1.6] * 6 + [1] * 8
    finding = pd.DataFrame({"job": ["job-0"], "first_step": [8], "last_step": [13]})
    assert listed(lengths) == [(4, 13)]
    assert listed(lengths, finding) == [(4, 6)]


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        ([1] * 20, []),
        ([3] + [1] * 18 + [3], []),  # the edges of a recording
        (([1] * 4 + [1.5]) * 5, []),  # saving every fifth step
        (([1] * 4 + [2.5]) * 5, []),
        ([1] * 8 + [1.5] + [1] * 11, []),  # one longer step
        ([1] * 8 + [2.5] + [1] * 11, [(8, 8)]),  # one step that takes much longer
        ([1] * 5 + [1.3] * 14, [(5, 17)]),  # slow until the end, whose last step may be cut
        ([1, 1.3, 1, 1.3, 1], []),  # too few to show what is usual
    ],
)
def test_what_is_clearly_slow(lengths, found):
    assert listed(lengths) == found


@given(st.integers(0, 10_000))
def test_the_noise_of_a_healthy_job_is_not_listed(seed):
    lengths = np.random.default_rng(seed).lognormal(0, 0.03, 40)
    assert listed(lengths) == []


def test_lengths_that_vary_by_nature_are_not_listed():
    lengths = np.random.default_rng(5).uniform(0.7, 1.5, 40)
    assert listed(lengths) == []


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.05])
def test_what_is_longer_than_the_least_shown_is_listed_and_less_is_not(noise):
    lengths = np.random.default_rng(8).normal(1, noise, 40)
    least = least_shown(table(lengths))["job-0"]
    usual = np.quantile(lengths, 0.25)
    for factor, found in ((1.2, [(20, 21)]), (0.6, [])):
        longer = lengths.copy()
        longer[20:22] = usual * (1 + factor * least)
        assert listed(longer) == found

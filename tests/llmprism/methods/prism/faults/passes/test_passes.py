"""Time since a receiver last sent, compared with a search among all that it sent."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.passes.passes import Passes

ENDS, STEPS, MESSAGES = 3, 4, 5


@pytest.mark.parametrize("seed", range(5))
def test_time_since_the_receiver_sent_is_that_of_a_search(seed: int) -> None:
    draw = np.random.default_rng(seed)
    out, into = draw.random((2, ENDS, STEPS, 2, MESSAGES))
    out[draw.random(out.shape) < 0.2] = np.nan  # lost, or merged with another message
    to = np.array([[1, 2, -1], [-1, 0, 1]])
    never = np.full((ENDS, STEPS), np.nan)
    passes = Passes(out, into, to, np.arange(ENDS), ENDS, depth=2, ended=never)
    found = passes.since_receiver_ns(np.arange(ENDS))
    for end in range(ENDS):
        for step in range(STEPS):
            for number in range(2 * MESSAGES):
                way, own = divmod(number, MESSAGES)
                when, peer = out[end, step, way, own], int(to[way, end])
                theirs = out[peer, step].ravel() if peer >= 0 else np.empty(0)
                since = min((when - one for one in theirs if one < when), default=np.inf)
                work = passes.work_ns[end, step, number]
                expected = min(np.nan_to_num(work, nan=np.inf), since)
                got = np.nan_to_num(found[end, step, number], nan=np.inf)
                assert got == pytest.approx(expected)


def test_a_pass_that_begins_when_the_step_before_has_just_ended_is_not_known() -> None:
    """The last of two stages gets its input at 10 and answers at 20, in step 1 at 25.

    It ended step 0 at 9 in the one case, and waited for a whole pass since then in the other.
    """
    out, into = np.full((2, 2, 2, 2, 1), np.nan)
    into[1, :, 0, 0] = 10.0
    out[1, :, 1, 0] = [20.0, 25.0]
    to = np.array([[1, -1], [-1, 0]])
    for ended, work in ((9.0, np.nan), (-9.0, 15.0)):
        before = np.array([[np.nan, np.nan], [np.nan, ended]])
        passes = Passes(out, into, to, np.arange(2), 2, depth=1, ended=before)
        assert passes.work_ns[1, 0, 1] == 10.0
        np.testing.assert_equal(passes.work_ns[1, 1, 1], work)


def test_later_passes_of_a_step_do_not_wait_for_the_step_before() -> None:
    """The last stage answers at 12 what it got at 10, and at 14 what it got at 11."""
    out, into = np.full((2, 2, 1, 2, 2), np.nan)
    into[1, 0, 0] = [10.0, 11.0]
    out[1, 0, 1] = [12.0, 14.0]
    to = np.array([[1, -1], [-1, 0]])
    before = np.array([[np.nan], [9.5]])
    passes = Passes(out, into, to, np.arange(2), 2, depth=2, ended=before)
    np.testing.assert_equal(passes.work_ns[1, 0, 2:], [np.nan, 2.0])

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
    passes = Passes(out, into, to, np.arange(ENDS), ENDS, depth=2)
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

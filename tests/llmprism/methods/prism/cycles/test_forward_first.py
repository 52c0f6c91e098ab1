"""A step of GPipe begins with forward passes, whichever silence is the longest."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.cycles.divisions import divisions

STEPS, MESSAGES, SIZE = 8, 6, 1000
FORWARD_NS, LAST_NS = 10, 60  # a pass, and both passes of the last stage with its output layer


def gpipe(backward_ns: int, lost: tuple[int, ...]) -> tuple[Traffic, np.ndarray]:
    """What two stages send each other, without the records ``lost``, and when steps begin [ns]."""
    forth = np.arange(MESSAGES) * FORWARD_NS
    back = forth[-1] + LAST_NS + np.arange(MESSAGES) * backward_ns
    step_ns = back[-1] + backward_ns + FORWARD_NS
    begins = np.arange(STEPS) * step_ns
    start = (begins[:, None] + np.concatenate((forth, back))).ravel()
    ways = np.tile(np.repeat([True, False], MESSAGES), STEPS)
    kept = np.setdiff1d(np.arange(start.size), lost)
    start, ways = start[kept], ways[kept]
    row, size = np.arange(start.size), np.full(start.size, SIZE)
    return Traffic(row, start, start + 2, size, np.zeros(row.size, np.int32), ways), begins


def begins_of(traffic: Traffic) -> list[int]:
    best = max(divisions(traffic), key=lambda one: one.quality)
    return traffic.start_ns[best.firsts].tolist()


@pytest.mark.parametrize("lost", [(), (15, 38, 63)])
def test_steps_begin_with_forward_passes_where_records_are_lost(lost):
    traffic, begins = gpipe(2 * FORWARD_NS, lost)
    assert begins_of(traffic) == begins.tolist()


def test_the_longest_silence_ends_steps_if_passes_take_equally_long():
    """Nothing shows then that the parts between the longest silences begin within steps."""
    traffic, begins = gpipe(FORWARD_NS, (15, 38, 63))
    turned = traffic.start_ns[np.flatnonzero(np.diff(traffic.forth.astype(int)) < 0) + 1]
    assert begins_of(traffic) == [0, *turned.tolist()]
    assert begins.size < len(begins_of(traffic))

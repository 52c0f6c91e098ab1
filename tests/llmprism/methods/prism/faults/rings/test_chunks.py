"""Which of two ranks on either side of a hop is late, by the chunks that the hop back sent."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.rings.chunks import all_but_first
from llmprism.methods.prism.faults.rings.ring_bursts import Hops
from llmprism.methods.prism.faults.rings.rings import Ring, _late_in

RANKS, CHUNK, LATE_NS = 4, 8.0e6, 50.0
OTHERS = (1, 2, 5, 6)  # chunks that hops sent in other steps before they paused


def hops_of(chunks, others=OTHERS):
    """A step in which the hop into server 0 is late, then steps with short pauses of the other."""
    sent = CHUNK * np.array([[100, *[100] * len(others)], [chunks, *others]], np.float64)
    begin = np.zeros(sent.shape)
    begin[0, 0] = LATE_NS
    again = np.where(sent < 100 * CHUNK, LATE_NS, np.nan)
    return Hops(begin, begin + 1, again, sent, np.full(sent.shape, 200 * CHUNK))


@pytest.mark.parametrize(("chunks", "server", "share"), [(3, 0, 0.25), (4, 1, 1.0)])
def test_the_chunks_of_a_server_tell_which_rank_of_two_is_late(chunks, server, share):
    """The hop leads from the last rank of server 1 to the first of server 0."""
    ring = Ring(np.arange(2), np.array([1, 0]))
    late = _late_in(ring, hops_of(chunks), RANKS, np.zeros(1 + len(OTHERS)))
    assert late.delay_ns[0] == LATE_NS
    assert (late.server[0], late.share[0], late.or_first_of[0]) == (server, share, -1)


@pytest.mark.parametrize("others", [(), (6,), (3, 3, 3)], ids=["none", "one", "the same"])
def test_without_other_pauses_either_may_be_late(others):
    hops = hops_of(3, others)
    sent = np.array([3 * CHUNK, *[np.nan] * len(others)])
    first, known = all_but_first(sent, hops, RANKS)
    assert not known.any()
    assert not first.any()


def test_what_is_no_whole_number_of_chunks_tells_nothing():
    hops = hops_of(3, (1.5, 2.3, 4.7))
    assert not all_but_first(np.array([3 * CHUNK, *[np.nan] * 3]), hops, RANKS)[1].any()

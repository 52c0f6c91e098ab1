"""Messages of a connection beside those of connections over as many hops."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.peers import _compared


def compared(rows, tick_ns=1.0):
    """Of connections with so many hops and a fastest message so long, in steps of ten messages."""
    values = np.array([(number, *row, 10) for number, row in enumerate(rows)], np.float64)
    return _compared(values, tick_ns)


def test_a_connection_is_slow_beside_those_over_as_many_hops():
    """One of those within a leaf; all of those across spines take three times as long as they."""
    paced = compared([(1, 1e5)] * 4 + [(1, 4e5)] + [(3, 3e5)] * 5)
    assert np.flatnonzero(paced.slow).tolist() == [4]
    assert paced.ratio[4] == 4.0
    assert paced.extra_ns[4] == pytest.approx(10 * 3e5)


def test_too_few_connections_show_nothing():
    assert not compared([(1, 1e5), (1, 1e5), (1, 9e5)]).slow.any()


@pytest.mark.parametrize(("tick_ns", "slow"), [(1e4, True), (1e6, False)])
def test_a_clock_that_is_coarse_for_a_message_shows_nothing(tick_ns, slow):
    assert compared([(1, 1e5)] * 4 + [(1, 2e6)], tick_ns).slow.any() == slow

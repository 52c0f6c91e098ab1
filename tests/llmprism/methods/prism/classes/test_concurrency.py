"""How many connections of a class move at the same time."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.records.traffic import Traffic


@pytest.mark.parametrize(
    ("start", "share"),
    [
        ([0, 0, 0, 0, 900, 900, 900, 900], 1.0),  # two collectives of four connections
        ([0, 100, 200, 300, 900, 1000, 1100, 1200], 1 / 4),  # one message after the other
        ([0, 50, 0, 50, 900, 950, 900, 950], 2 / 3),  # half of them begin halfway
    ],
)
def test_messages_of_a_collective_move_together(start, share):
    begun = np.array(start)
    zeros = np.zeros(begun.size, np.int32)
    size = np.full(begun.size, 1000)
    order = np.argsort(begun, kind="stable")
    traffic = Traffic(
        np.arange(begun.size), begun[order], begun[order] + 100, size, zeros, zeros == 0
    )
    one = TrafficClass(np.arange(4), False, traffic)
    assert one.concurrency == pytest.approx(share)

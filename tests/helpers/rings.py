"""Traffic of one connection or ring, message by message, and steps by their ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.records.traffic import Traffic
from llmprism.methods.prism.segment.stepping import Stepping
from llmprism.numerics.arrays import Floats

MS = 1_000_000


def ring(messages_ms: Sequence[float] | Floats, lost: float = 0.0, members: int = 4) -> Component:
    """A ring in which every member sends a message of one size at each of the times [ms].

    A share of them is ``lost``.
    """
    rng = np.random.default_rng(1)
    times = np.repeat(np.array(messages_ms) * MS, members).astype(np.int64)
    times = times[rng.random(times.size) >= lost]
    rows = np.arange(times.size)
    couple = rows % members
    traffic = Traffic(
        rows, times, times + MS, np.full(rows.size, 1000), couple, np.ones(rows.size, np.bool_)
    )
    one = TrafficClass(np.arange(members), False, traffic)
    return Component(np.arange(members, dtype=np.int32), (one,))


def lines(starts_ms: Sequence[float] | Floats, length_ms: float = 1.0) -> Traffic:
    """Messages of one size from the times [ms], on one connection."""
    start = (np.array(starts_ms) * MS).astype(np.int64)
    rows = np.arange(start.size)
    size = np.full(start.size, 1000)
    return Traffic(rows, start, start + int(length_ms * MS), size, 0 * rows, rows >= 0)


def stepping(end_ms: Sequence[float] | Floats) -> Stepping:
    """Steps that end at the times [ms], and in which traffic moves for 40 ms."""
    end_ns = (np.asarray(end_ms) * MS).astype(np.int64)
    return Stepping(end_ns.size, 0.9, 0, (), end_ns - 40 * MS, end_ns)

"""A track that shows the wall-clock time (UTC) of every moment of the trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pyarrow as pa

from prism_sim.render.trace.lines import Event, Ints, describe, lines, microseconds, thread

_TICKS = 1500
_PERIODS_NS = [by * 10**power for power in range(3, 15) for by in (1, 2, 5)]


def clock(pid: int, extent: tuple[int, int]) -> Iterator[Event | str]:
    """Slices of one round period each, named by the time at which they begin."""
    yield from describe(pid, "clock (UTC)")
    first, last = extent
    period = next(one for one in _PERIODS_NS if (last - first) / one <= _TICKS)
    ticks = range(-(-first // period) * period, last, period)
    start: Ints = np.array(ticks, np.int64)
    name = np.datetime_as_string(start.astype("M8[ns]"), unit=_unit(period))
    yield thread(pid, 1, "UTC")
    yield from lines(
        '{"ph": "X", "name": "', pa.array(name.astype(object), pa.string()), '", "ts": ',
        microseconds(start - first), ', "dur": ',
        microseconds(np.minimum(period, last - start)), f', "pid": {pid}, "tid": 1}}',
    )  # fmt: skip


def _unit(period_ns: int) -> Literal["s", "ms", "us"]:
    if period_ns % 10**9 == 0:
        return "s"
    return "ms" if period_ns % 10**6 == 0 else "us"

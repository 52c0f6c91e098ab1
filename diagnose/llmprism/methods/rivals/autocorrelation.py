"""Steps from the period of the traffic: the first peak of its autocorrelation.

All bytes of a job are counted in short intervals. Training repeats, so the autocorrelation of the
counts has peaks at the length of a step and its multiples. Every step of every rank has this
length, and begins where traffic is usually least. A step that is longer than others is missed, and
so is every fault.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods import register
from llmprism.methods.rivals.connected import connected_jobs, job_table, pair_table
from llmprism.model import Progress
from llmprism.numerics.arrays import Floats, Ints

_INTERVALS = 1 << 14  # of a recording
_PEAK = 0.7  # a peak of at least this part of the highest one is the period
_QUIET = 50  # the quietest of so many parts of a period is where a step begins


@register("autocorrelation")
def autocorrelation(
    flows: FlowTable, topology: Topology, progress: Progress
) -> dict[str, pd.DataFrame]:
    """Return jobs, pairs, and steps of equal length."""
    jobs = connected_jobs(flows, topology)
    tables = [_steps_of(flows, jobs.of_address == job, name) for job, name in enumerate(jobs.names)]
    progress(1.0, "period")
    steps = {"steps": pd.concat(tables, ignore_index=True)} if tables else {}
    return {"jobs": job_table(flows, jobs), "pairs": pair_table(flows, jobs), **steps}


def _steps_of(flows: FlowTable, members: np.ndarray, job: str) -> pd.DataFrame:
    """The table ``steps`` of one job."""
    rows = np.flatnonzero(members[flows.src])
    start_ns, end_ns = int(flows.start_ns[rows].min()), int(flows.end_ns[rows].max())
    width_ns = max(1, -(-(end_ns - start_ns) // _INTERVALS))
    counts = np.bincount(
        (flows.start_ns[rows] - start_ns) // width_ns, flows.bytes[rows], _INTERVALS
    ).astype(np.float64)
    period = period_of(counts)
    if not period:
        return pd.DataFrame()
    begin = start_ns + width_ns * _quietest(counts, period)
    borders = np.arange(begin, end_ns + width_ns * period, width_ns * period)
    tables = [
        pd.DataFrame({"step": np.arange(borders.size - 1), "address": flows.addresses[end]}).assign(
            start_ns=borders[:-1], end_ns=borders[1:], dp_end_ns=borders[1:]
        )
        for end in np.unique(flows.src[rows])
    ]
    return pd.concat(tables).assign(job=job, confidence=0.5)


def period_of(counts: Floats) -> int:
    """The period of ``counts``, in their number; 0 without one.

    It is the lag of the first high peak of the autocorrelation, beyond its first minimum.

    >>> period_of(np.tile([5.0, 0.0, 0.0, 1.0], 20))
    4
    """
    centred = counts - counts.mean()
    spectrum = np.fft.rfft(centred, 2 * counts.size)
    at_lag = np.fft.irfft(np.abs(spectrum) ** 2)[: counts.size // 2]
    at_lag /= np.arange(counts.size, counts.size - at_lag.size, -1)
    falling = np.flatnonzero(np.diff(at_lag) > 0)
    if not falling.size:
        return 0
    beyond = at_lag[falling[0] :]
    peaks = [lag for lag in _peaks(beyond) if beyond[lag] >= _PEAK * beyond.max() > 0]
    return int(falling[0]) + peaks[0] if peaks else 0


def _peaks(values: Floats) -> Iterator[int]:
    """Where ``values`` are higher than before and not lower than after."""
    inner = values[1:-1]
    yield from (np.flatnonzero((inner > values[:-2]) & (inner >= values[2:])) + 1).tolist()


def _quietest(counts: Floats, period: int) -> int:
    """The phase of the least traffic: the middle of a window of a fiftieth of the period."""
    folded = np.bincount(np.arange(counts.size) % period, counts, period)
    width = max(1, period // _QUIET)
    window: Ints = (np.arange(period)[:, None] + np.arange(width)) % period
    return int(folded[window].sum(axis=1).argmin()) + width // 2

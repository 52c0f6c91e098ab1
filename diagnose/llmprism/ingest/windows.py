"""Records of some time as arrays: which of them several observation points saw.

Everything here works on whole arrays, so that the time per record does not depend on how many
flows or observation points there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from llmprism.numerics.arrays import Bools, Floats, Ints

MOST_POINTS = 62  # of one flow; a path in a data centre has five or so


@dataclass
class Window:
    """Records of some time as arrays; ``rank`` numbers the points of a flow by first sight."""

    flow: Ints
    rank: Ints
    point: Ints
    start: Ints
    end: Ints
    sampled: Bools
    fixed: Bools  # handed on already


def codes(column: pa.ChunkedArray) -> Ints:
    """Return a number for each value, by first appearance; -1 for null."""
    found: Ints = np.asarray(pd.factorize(column.to_pandas())[0], dtype=np.int64)
    return found


def numbered(*columns: Ints) -> tuple[Ints, Ints]:
    """Number the different rows by first appearance; return each row's number, and the firsts.

    >>> numbered(np.array([7, 7, 5, 7]), np.array([1, 2, 1, 1]))
    (array([0, 1, 2, 0]), array([0, 1, 2]))
    """
    number = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        values, distinct = pd.factorize(column)
        number = pd.factorize(number * max(len(distinct), 1) + values)[0].astype(np.int64)
    _, firsts = np.unique(number, return_index=True)
    return number, firsts.astype(np.int64)


def decide(window: Window, tolerance: int) -> Bools:
    """Mark the records to keep: of each transmission, that of the point with the least rank."""
    keep: Bools = window.fixed | (window.rank == 0)
    for rank in range(1, int(window.rank.max(initial=0)) + 1):
        mine = (window.rank == rank) & ~window.fixed
        covered = np.isfinite(_lags(window, keep, mine, tolerance))
        flows = np.unique(window.flow[keep])
        covered |= window.sampled[mine] & np.isin(window.flow[mine], flows)
        keep[np.flatnonzero(mine)[~covered]] = True
    return keep


def offsets_ns(window: Window, tolerance: int) -> Floats:
    """Return how much later than a record each point saw its flow, by rank; NaN: it did not."""
    ranks = int(window.rank.max(initial=0)) + 1
    everything = np.ones(window.flow.size, dtype=np.bool_)
    columns = [_lags(window, window.rank == rank, everything, tolerance) for rank in range(ranks)]
    return np.stack(columns, axis=1)


def _lags(window: Window, those: Bools, mine: Bools, tolerance: int) -> Floats:
    """Return how much later the nearest of ``those`` starts, for each of ``mine``.

    NaN where none of the same flow overlaps.
    """
    rows, asked = np.flatnonzero(those), np.flatnonzero(mine)
    if not rows.size or not asked.size:
        return np.full(asked.size, np.nan)
    rows = rows[np.lexsort((window.start[rows], window.flow[rows]))]
    flow, start = window.flow[rows], window.start[rows]
    until = pd.Series(window.end[rows]).groupby(flow).cummax().to_numpy()
    its_flow, its_start = window.flow[asked], window.start[asked]
    last = _last(flow, start, its_flow, window.end[asked] + tolerance)
    overlaps = (last >= 0) & (flow[last] == its_flow)
    overlaps &= until[last] >= its_start - tolerance
    near = _last(flow, start, its_flow, its_start + tolerance)
    near = np.where((near >= 0) & (flow[near] == its_flow), near, near + 1)
    lag = (start[np.minimum(near, rows.size - 1)] - its_start).astype(np.float64)
    return np.where(overlaps, lag, np.nan)


def _last(flow: Ints, time: Ints, its_flow: Ints, its_time: Ints) -> Ints:
    """Return the place of the last (flow, time) at or before each asked one; -1 for none."""
    moments, order = np.unique(np.concatenate([time, its_time]), return_inverse=True)
    count = np.int64(moments.size)
    keys, wanted = flow * count + order[: time.size], its_flow * count + order[time.size :]
    found: Ints = np.searchsorted(keys, wanted, side="right") - 1
    return found

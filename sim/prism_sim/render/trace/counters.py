"""Counters of a trace: the rate of each NIC, and the number of ranks that wait."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from llmprism.io.nics import frame_by_nic
from llmprism.page.activity import WAIT, codes_in
from llmprism.page.leaves import binned_bytes
from llmprism.page.tables import Tables
from prism_sim.render.trace.lines import Event, describe, lines, microseconds, numbers, quoted
from prism_sim.render.trace.selection import Selection

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_NICS = 256
_POINTS = 40_000  # of all rates together
_BINS = 1000
_CHANGES = 4000  # of the ranks that wait, for each job


def counters(
    tables: Tables, chosen: Selection, pid: int, extent: tuple[int, int]
) -> Iterator[Event | str]:
    """One process with a counter for each NIC and direction, and one for each job."""
    yield from describe(pid, "counters")
    shown = chosen.ranks.loc[chosen.with_spans, "address"]
    every = shown if len(shown) >= _NICS else chosen.ranks["address"]
    nics = list(dict.fromkeys([*shown.astype(str), *every.astype(str)]))[:_NICS]
    if len(tables.flows) and nics:
        yield from _rates(pid, frame_by_nic(tables.flows, tables.topology), nics, extent)
    yield from _waiting(tables, pid, extent[0])


def _rates(
    pid: int, flows: pd.DataFrame, nics: list[str], extent: tuple[int, int]
) -> Iterator[str]:
    """Mean rates [Gbit/s] in equal bins; a rate that does not change is written once."""
    bins = max(1, min(_BINS, _POINTS // (2 * len(nics))))
    width = max((extent[1] - extent[0]) / bins, 1.0)
    edges = float(extent[0]), extent[0] + width * bins
    times = (flows[name].to_numpy(float) for name in ("start_ns", "end_ns", "bytes"))
    start, end, size = times
    near = (end >= edges[0]) & (start <= edges[1])
    for side, direction in (("src", "sent"), ("dst", "received")):
        row = np.where(near, codes_in(flows[side], pd.Index(nics)), -1)
        size_of = binned_bytes(row, start, end, size, (len(nics), bins), edges)
        yield from _points(pid, nics, direction, np.round(size_of * 8 / width, 3), width)


def _points(pid: int, nics: list[str], direction: str, rate: Floats, width: float) -> Iterator[str]:
    changed = np.diff(rate, axis=1, prepend=-1.0) != 0
    row, bin_ = np.nonzero(changed)
    names = [f"{nic} {direction} [Gbit/s]" for nic in nics]
    value = pa.array([f"{one:.3f}" for one in rate[row, bin_].tolist()], pa.string())
    yield from lines(
        '{"ph": "C", "name": ', quoted(names, row.astype(np.int64)), ', "ts": ',
        microseconds((bin_ * width).astype(np.int64)), f', "pid": {pid}, "tid": 0, "args": {{',
        '"Gbit/s": ', value, "}}",
    )  # fmt: skip


def _waiting(tables: Tables, pid: int, origin: int) -> Iterator[str]:
    """Ranks of each job that wait for a message, as far as flow records show it."""
    waits = tables.spans[tables.spans["kind"] == WAIT]
    for job, own in waits.groupby("job", observed=True):
        time = np.concatenate(
            [own["start_ns"].to_numpy(np.int64), own["end_ns"].to_numpy(np.int64)]
        )
        change = np.repeat(np.array([1, -1]), len(own))
        order = np.argsort(time, kind="stable")
        time, level = time[order], np.cumsum(change[order])
        last = np.append(np.diff(time) > 0, True)
        time, level = time[last], level[last]
        if len(time) > _CHANGES:
            wanted = np.linspace(time[0], time[-1], _CHANGES).astype(np.int64)
            time, level = wanted, level[np.searchsorted(time, wanted, "right") - 1]
        name = json.dumps(f"ranks of {job} that wait")
        yield from lines(
            f'{{"ph": "C", "name": {name}, "ts": ', microseconds(time - origin),
            f', "pid": {pid}, "tid": 0, "args": {{"ranks": ', numbers(level), "}}",
        )  # fmt: skip

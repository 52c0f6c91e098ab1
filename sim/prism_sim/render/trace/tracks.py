"""The tracks of one process: slices of a rank and stream, on as few tracks as they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from prism_sim.render.trace.lines import Event, lines, microseconds, numbers, quoted, thread
from prism_sim.render.trace.processes import Process

Ints = NDArray[np.int64]

_ORDER = ("steps", "compute", "pp send", "pp receive", "pp", "dp")


@dataclass(frozen=True)
class Tracks:
    """The slices of a process in order of rank, stream and time, each with its track.

    Attributes
    ----------
    tid : track of each row of ``slices``.
    """

    pid: int
    process: Process
    slices: pd.DataFrame
    tid: Ints
    events: list[Event | str]


def tracks_of(pid: int, process: Process, origin: int) -> Tracks:
    """Put the slices of a process on tracks, and write them as events."""
    slices = process.slices
    streams = sorted(slices["stream"].unique(), key=lambda name: (_place(name), name))
    stream = pd.Index(streams).get_indexer(slices["stream"]) if streams else np.empty(0, int)
    start, end = (slices[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    order = np.lexsort((-end, start, stream, slices["number"].to_numpy(np.int64)))
    slices, stream = slices.iloc[order], stream[order]
    number, start, end = slices["number"].to_numpy(np.int64), start[order], end[order]
    begins = np.flatnonzero(np.diff(number, prepend=-1) | np.diff(stream, prepend=-1))
    lane = _lanes_of(begins, start, end)
    count = np.maximum.reduceat(lane, begins) + 1 if len(begins) else np.empty(0, np.int64)
    above = np.cumsum(count) - count
    group = np.searchsorted(begins, np.arange(len(slices)), "right") - 1
    tid = above[group] + lane + 1 if len(slices) else np.empty(0, np.int64)
    events: list[Event | str] = []
    for first, base, tracks in zip(begins.tolist(), above.tolist(), count.tolist(), strict=True):
        rank, name = process.ranks[int(number[first])], streams[stream[first]]
        for extra in range(tracks):
            events += _named(
                pid, base + extra + 1, f"{rank} {name}" + f" {extra + 1}" * (extra > 0)
            )
    is_step = np.array([name == "steps" for name in streams], bool)[stream]
    category = quoted(streams, stream.astype(np.int64)) if streams else pa.array([], pa.string())
    events += _lines(pid, slices, tid, category, origin, is_step)
    return Tracks(pid, process, slices, tid, events)


def _named(pid: int, tid: int, name: str) -> Iterator[Event]:
    yield thread(pid, tid, name)
    order = {"sort_index": tid}
    yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": order}


def _place(stream: str) -> int:
    return _ORDER.index(stream) if stream in _ORDER else len(_ORDER)


def _lanes_of(begins: Ints, start: Ints, end: Ints) -> Ints:
    """Lane of each slice; the slices of a group follow each other from each of ``begins``."""
    lane = np.zeros(len(start), np.int64)
    stops = np.append(begins[1:], len(start)) if len(begins) else begins
    overlaps = np.zeros(len(start), bool)
    overlaps[1:] = start[1:] < end[:-1]
    overlaps[begins] = False
    busy = np.add.reduceat(overlaps, begins) > 0 if len(begins) else np.empty(0, bool)
    for first, stop in zip(begins[busy].tolist(), stops[busy].tolist(), strict=True):
        lane[first:stop] = lanes(start[first:stop], end[first:stop])
    return lane


def lanes(start: Ints, end: Ints) -> Ints:
    """Lowest track on which each interval is nested with all earlier ones.

    The intervals are sorted by start; of those with the same start the longest is first. Two
    intervals of one track are disjoint or nested.
    """
    open_until: list[list[int]] = []  # ends of the open intervals, by track
    result = np.zeros(len(start), np.int64)
    for place, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        for around in open_until:
            while around and around[-1] <= begin:
                around.pop()
        fits = (n for n, around in enumerate(open_until) if not around or stop <= around[-1])
        result[place] = lane = next(fits, len(open_until))
        if lane == len(open_until):
            open_until.append([])
        open_until[lane].append(stop)
    return result


def _lines(
    pid: int,
    slices: pd.DataFrame,
    tid: Ints,
    category: pa.Array,
    origin: int,
    is_step: NDArray[np.bool_],
) -> Iterator[str]:
    """The slices as lines; those of steps have their UTC time."""
    start = slices["start_ns"].to_numpy(np.int64)
    length = np.maximum(slices["end_ns"].to_numpy(np.int64) - start, 0)
    codes, names = pd.factorize(slices["name"])
    name = quoted(names, codes.astype(np.int64))
    step = slices["step"].to_numpy(np.int64)
    for part, is_wanted in ((is_step, True), (~is_step, False)):
        row = pa.array(np.flatnonzero(part))
        ending: list[str | pa.Array] = ["}}"]
        if is_wanted:
            at = np.datetime_as_string(start[part].astype("M8[ns]"), unit="us")
            ending = [', "utc": "', pa.array(at.astype(object), pa.string()), 'Z"}}']
        yield from lines(
            '{"ph": "X", "name": ', name.take(row), ', "cat": ', category.take(row),
            ', "ts": ', microseconds(start[part] - origin), ', "dur": ',
            microseconds(length[part]), f', "pid": {pid}, "tid": ', numbers(tid[part]),
            ', "args": {"step": ', numbers(step[part]), *ending,
        )  # fmt: skip

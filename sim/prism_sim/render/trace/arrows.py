"""Arrows from the sending of each message between stages to its reception.

In the truth, both ends of a message have the number of their communication. In a reconstruction,
every record between two stages is a message. Messages within the windows of faults and findings
come first, if there are too many.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.page.activity import codes_in
from llmprism.page.tables import Tables
from prism_common.kinds import PP
from prism_sim.render.trace.lines import lines, microseconds, numbers
from prism_sim.render.trace.selection import Selection
from prism_sim.render.trace.tracks import Tracks

Ints = NDArray[np.int64]

_ARROWS = 20_000


def arrows(
    tables: Tables,
    chosen: Selection,
    made: list[Tracks],
    origin: int,
    windows: list[tuple[int, int]],
) -> Iterator[str]:
    """Begin and end of each arrow; those of the truth if it is known."""
    wanted = [one for one in made if one.process.known == chosen.known and len(one.slices)]
    messages = None if chosen.known else tables.messages
    number = 0
    for one in wanted:
        ends = _true(one) if messages is None else _inferred(one, messages)
        kept = _limited(ends, windows, _ARROWS // len(wanted))
        yield from _lines(one.pid, kept, number, origin)
        number += len(kept)


def _true(tracks: Tracks) -> pd.DataFrame:
    """Senders and receivers of each communication of stages."""
    slices = tracks.slices.assign(tid=tracks.tid)
    slices = slices[slices["communication"] >= 0]
    sides = [
        slices.loc[slices["stream"] == stream, ["communication", "tid", "start_ns", "end_ns"]]
        for stream in ("pp send", "pp receive")
    ]
    sent, received = (side.drop_duplicates("communication") for side in sides)
    both = sent.merge(received, on="communication", suffixes=("", "_received"))
    return pd.DataFrame(
        {
            "tid": both["tid"],
            "start_ns": both["start_ns"],
            "tid_received": both["tid_received"],
            "end_ns": np.maximum(both["end_ns_received"] - 1, both["start_ns_received"]),
        }
    )


def _inferred(tracks: Tracks, messages: pd.DataFrame) -> pd.DataFrame:
    """Records whose two ends lie in slices of this process."""
    numbers_of: Ints = np.array([*tracks.process.ranks, -1], np.int64)
    labels = pd.Index([str(label) for label in tracks.process.ranks.values()])
    is_pp = (tracks.slices["stream"] == PP).to_numpy(bool)
    slices, tid = tracks.slices[is_pp], tracks.tid[is_pp]
    ends = {}
    for side, time in (("src", messages["start_ns"]), ("dst", messages["end_ns"] - 1)):
        number = numbers_of[codes_in(messages[side], labels)]
        ends[side] = _place(slices, number, time.to_numpy(np.int64))
    known = (ends["src"] >= 0) & (ends["dst"] >= 0)
    return pd.DataFrame(
        {
            "tid": tid[ends["src"][known]],
            "start_ns": messages["start_ns"].to_numpy(np.int64)[known],
            "tid_received": tid[ends["dst"][known]],
            "end_ns": messages["end_ns"].to_numpy(np.int64)[known] - 1,
        }
    )


def _place(slices: pd.DataFrame, number: Ints, time: Ints) -> Ints:
    """Row of the slice of a rank around a time; -1 if there is none."""
    if not len(slices):
        return np.full(len(number), -1)
    start, end = (slices[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    rank = slices["number"].to_numpy(np.int64)
    first = start.min()
    lane = int(max(end.max(), time.max(initial=0)) - first) + 1
    key = rank * lane + (start - first)
    wanted = number * lane + np.clip(time - first, 0, lane - 1)
    row = np.searchsorted(key, wanted, "right") - 1
    safe = np.maximum(row, 0)
    inside = (row >= 0) & (rank[safe] == number) & (start[safe] <= time) & (time <= end[safe])
    return np.where(inside & (number >= 0), safe, -1)


def _limited(ends: pd.DataFrame, windows: list[tuple[int, int]], most: int) -> pd.DataFrame:
    if len(ends) <= most:
        return ends
    start = ends["start_ns"].to_numpy(np.int64)
    inside = np.zeros(len(ends), bool)
    for first, last in windows:
        inside |= (start >= first) & (start <= last)
    order = np.lexsort((start, ~inside))[:most]
    return ends.iloc[np.sort(order)]


def _lines(pid: int, ends: pd.DataFrame, number: int, origin: int) -> Iterator[str]:
    identity = numbers(np.arange(number, number + len(ends), dtype=np.int64))
    for phase, tid, time in (("s", "tid", "start_ns"), ("f", "tid_received", "end_ns")):
        at = np.maximum(ends[time].to_numpy(np.int64) - origin, 0)
        yield from lines(
            f'{{"ph": "{phase}", "bp": "e", "name": "message", "cat": "message", "id": ', identity,
            ', "ts": ', microseconds(at), f', "pid": {pid}, "tid": ',
            numbers(ends[tid].to_numpy(np.int64)), "}",
        )  # fmt: skip

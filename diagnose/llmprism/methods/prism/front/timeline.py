"""Begin and end of every rank's steps.

The last data-parallel traffic that a rank receives ends its step. Where it stays inside servers,
the last activity does, at a first stage with its backward pass. The next step begins after the
host's work, which the first stage shows: it sends its first activation a forward pass later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.front.layouts.layout import Layout
from llmprism.methods.prism.front.parameters import (
    FORWARD_SHARE,
    MOST_HOST_WORK,
    SHORTEST_PAUSE,
)
from llmprism.methods.prism.front.segment.borders import Borders
from llmprism.methods.prism.front.segment.cutting import CutLane
from llmprism.methods.prism.front.segment.known import median_known
from llmprism.numerics.arrays import Codes, Floats
from prism_common.kinds import DP, PP


@dataclass(frozen=True)
class Timeline:
    """Steps of every rank; arrays of shape (endpoints, steps) [ns]; NaN where not shown."""

    start: Floats
    end: Floats
    dp_end: Floats


@dataclass(frozen=True)
class _Seen:
    """First and last traffic of each rank in each step, shape (endpoints, steps) [ns]."""

    first: Floats
    last: Floats
    dp_end: Floats


def find_timeline(
    cut: list[CutLane], endpoints: Codes, borders: Borders, layout: Layout
) -> Timeline:
    """The steps of ``endpoints``."""
    row = {int(end): i for i, end in enumerate(endpoints)}
    seen = _seen(cut, row, layout, (endpoints.size, borders.steps))
    lanes = {(c.lane.src, c.lane.dst): c for c, k in zip(cut, layout.kinds, strict=True) if k == PP}
    end = np.where(np.isnan(seen.dp_end), seen.last, seen.dp_end)
    gaps = []
    for chain in layout.chains:
        opening = lanes.get((chain.ends[0], chain.ends[1])) if len(chain.ends) > 1 else None
        if not chain.certain or opening is None:
            continue
        forward, first = _forward_pass(chain.ends, lanes), row[chain.ends[0]]
        end[first] = np.where(np.isnan(seen.dp_end[first]), end[first] + 2 * forward, end[first])
        gaps.append(opening.begin()[1:] - forward - end[first, :-1])
    return Timeline(_starts(seen, end, _between(gaps, borders), borders), end, seen.dp_end)


def _between(gaps: list[Floats], borders: Borders) -> Floats:
    """Time between the end of a step and the begin of the next one [ns], shape (steps - 1,).

    NaN if it is not shown: no chain shows it, or its order of stages is not that of the steps.
    """
    unknown = np.full(borders.steps - 1, np.nan)
    if not gaps:
        return unknown
    between = median_known(np.array(gaps), axis=0)
    usual = float(median_known(between)) if not np.isnan(between).all() else np.inf
    return np.maximum(between, 0.0) if abs(usual) <= MOST_HOST_WORK * borders.period_ns else unknown


def _seen(cut: list[CutLane], row: dict[int, int], layout: Layout, shape: tuple[int, int]) -> _Seen:
    first, last = np.full(shape, np.nan), np.full(shape, np.nan)
    received, sent = np.full(shape, np.nan), np.full(shape, np.nan)
    for c, kind in zip(cut, layout.kinds, strict=True):
        begins, ends = c.begin(), c.last()
        src, dst = row[c.lane.src], row[c.lane.dst]
        for i in (src, dst):
            first[i] = np.fmin(first[i], begins)
            last[i] = np.fmax(last[i], ends)
        if kind == DP:
            received[dst] = np.fmax(received[dst], ends)
            sent[src] = np.fmax(sent[src], ends)
    return _Seen(first, last, np.where(np.isnan(received), sent, received))


def _forward_pass(ends: tuple[int, ...], lanes: dict[tuple[int, int], CutLane]) -> float:
    """Usual duration of a stage's forward pass [ns]: by middle stages, or by the last one."""
    passes = []
    for a, b, c in zip(ends, ends[1:], ends[2:], strict=False):
        if (a, b) in lanes and (b, c) in lanes:
            passes.append(median_known(lanes[b, c].begin() - _arrival(lanes[a, b])))
    positive = [duration for duration in passes if duration > 0]
    if positive:
        return float(np.median(positive))
    there, back = lanes.get((ends[-2], ends[-1])), lanes.get((ends[-1], ends[-2]))
    if there is None or back is None:
        return 0.0
    answer = float(median_known(back.first() - _arrival(there)))
    return max(0.0, FORWARD_SHARE * answer)


def _arrival(lane: CutLane) -> Floats:
    """End of the first record of each step [ns]."""
    at = np.searchsorted(lane.lane.start, lane.begin())
    return lane.lane.end[np.minimum(at, lane.lane.end.size - 1)]


def _starts(seen: _Seen, end: Floats, between: Floats, borders: Borders) -> Floats:
    """Begins: after what lies between two steps; where that is not shown, later after a pause."""
    before = np.concatenate((np.full((len(end), 1), np.nan), end[:, :-1]), axis=1)
    silence = seen.first - before
    usual = median_known(silence, axis=1, keepdims=True)
    long = silence > 2 * usual + SHORTEST_PAUSE * borders.period_ns
    start = np.where(long, seen.first - usual, before)
    shown = before + np.append(np.nan, between)[None, :]
    start = np.where(np.isnan(shown), start, shown)
    first = np.where(np.isnan(usual), seen.first, seen.first - usual)
    return np.where(np.isnan(start), first, start)

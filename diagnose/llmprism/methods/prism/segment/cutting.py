"""Cut every lane of a job at the borders of its steps.

The borders of one lane are chosen together by dynamic programming among its silences: long ones,
near the border of the job, with the usual bytes since the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.segment.lanes import Lane
from llmprism.methods.prism.segment.parameters import (
    BYTES_COST,
    CANDIDATE_SILENCES,
    CUT_RANGE,
    DISTANCE_COST,
    ENDED,
    EVALUATION_BYTES,
    SILENCE_COST,
)
from llmprism.methods.prism.segment.borders import Borders
from llmprism.methods.prism.segment.programme import exactness
from llmprism.numerics.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class CutLane:
    """A lane divided into steps.

    Attributes
    ----------
    lane : the records.
    bounds : step k has the records ``bounds[k]:bounds[k + 1]``, shape (steps + 1,).
    """

    lane: Lane
    bounds: Ints

    @property
    def active(self) -> Bools:
        """Whether the lane has records in each step, shape (steps,)."""
        return self.bounds[1:] > self.bounds[:-1]

    @property
    def bytes(self) -> Floats:
        """Bytes in each step, shape (steps,)."""
        return np.diff(self.lane.sent[self.bounds])

    @property
    def counts(self) -> Ints:
        """Records in each step, shape (steps,)."""
        return np.diff(self.bounds)

    def first(self) -> Floats:
        """First packet in each step [ns]; NaN if there is none."""
        at = np.minimum(self.bounds[:-1], self.lane.start.size - 1)
        return np.where(self.active, self.lane.start[at], np.nan)

    def begin(self) -> Floats:
        """First packet in each step [ns], after the excess bytes of an evaluation before it."""
        steps = self.bytes
        usual = np.median(steps[self.active]) if self.active.any() else 0.0
        excess = np.maximum(steps - usual, 0.0)
        excess[excess < EVALUATION_BYTES * usual] = 0.0
        at = np.searchsorted(self.lane.sent, self.lane.sent[self.bounds[:-1]] + excess)
        at = np.minimum(at, self.lane.start.size - 1)
        return np.where(self.active, self.lane.start[at], np.nan)

    def last(self) -> Floats:
        """Last packet in each step [ns]; NaN if there is none."""
        ends = np.append(self.lane.end, -np.inf)
        latest = np.maximum.reduceat(ends, np.minimum(self.bounds[:-1], self.lane.end.size))
        return np.where(self.active, latest, np.nan)

    def mean(self) -> Floats:
        """Byte-weighted mean time in each step [ns]; NaN if there is none."""
        moment = (self.lane.start + self.lane.end) / 2 * self.lane.size
        sums = np.diff(np.concatenate(([0.0], np.cumsum(moment)))[self.bounds])
        return np.where(self.active, sums / np.maximum(self.bytes, 1.0), np.nan)


def cut_lane(lane: Lane, borders: Borders) -> CutLane:
    """Divide ``lane`` at the ``borders``, in two passes: the second one knows its usual offset."""
    count = lane.start.size
    inner = np.searchsorted(lane.start, borders.middle)
    usual = np.diff(lane.sent[np.concatenate(([0], inner, [count]))])
    usual_bytes = float(np.median(usual[usual > 0])) if (usual > 0).any() else 1.0
    exact = float(exactness(usual[None, 1:-1] / usual_bytes)[0, 0])
    if lane.silent.size:
        inner = _choose(lane, borders, usual_bytes, 0.0, exact)
        shift = _offset(lane, borders, inner)
        if shift:
            inner = _choose(lane, borders, usual_bytes, shift, exact)
    return CutLane(lane, np.concatenate(([0], inner, [count])))


def ended(cut: list[CutLane], borders: Borders) -> tuple[list[CutLane], Borders]:
    """Lanes and borders without a last step that lacks bytes: recording or job stopped in it."""
    total = np.sum([c.bytes for c in cut], axis=0)
    if total.size < 3 or total[-1] >= ENDED * np.median(total):
        return cut, borders
    shorter = replace(borders, low=borders.low[:-1], high=borders.high[:-1])
    return [replace(c, bounds=c.bounds[:-1]) for c in cut], shorter


def _offset(lane: Lane, borders: Borders, inner: Ints) -> float:
    """Usual distance of the lane's border from that of the job [ns]; 0 if it is inside."""
    inside = (inner > 0) & (inner < lane.start.size)
    if not inside.any():
        return 0.0
    low = lane.reached[inner[inside] - 1] - borders.high[inside]
    high = lane.start[inner[inside]] - borders.low[inside]
    after, before = float(np.median(low)), float(np.median(high))
    return after if after > 0 else before if before < 0 else 0.0


def _choose(lane: Lane, borders: Borders, usual: float, shift: float, exact: float) -> Ints:
    """The record that begins each step but the first, by dynamic programming."""
    at = lane.silent
    begin, end = lane.reached[at - 1], lane.start[at]
    reach = CUT_RANGE * borders.period_ns
    low, high = borders.low + shift, borders.high + shift
    first = np.searchsorted(end, low - reach)
    last = np.searchsorted(begin, high + reach, "right")
    fallback = np.searchsorted(lane.start, (low + high) / 2)
    total, choice = np.zeros(1), np.zeros(1, np.int64)
    history: list[tuple[Ints, Ints]] = []
    for k in range(low.size):
        rows = np.arange(first[k], last[k])
        away = np.maximum(np.maximum(begin[rows] - high[k], low[k] - end[rows]), 0.0)
        score = SILENCE_COST * np.log((end - begin)[rows] / lane.floor)
        score -= DISTANCE_COST * away / borders.period_ns
        best = np.argsort(-score, kind="stable")[:CANDIDATE_SILENCES]
        ends = np.maximum((low[k] - lane.start[0], lane.reached[-1] - high[k]), 0.0)
        unseen = -DISTANCE_COST * ends / borders.period_ns
        options = np.concatenate((at[rows[best]], (0, lane.start.size, fallback[k])))
        score = np.concatenate((score[best], unseen, (-1.0,)))
        passed = lane.sent[options][None, :] - lane.sent[choice][:, None]
        excess = passed / usual - 1
        cost = BYTES_COST * np.log1p((np.abs(excess) if k else np.maximum(excess, 0)) / exact)
        cost = np.where(passed < 0, np.inf, cost)
        value = total[:, None] - cost
        before = np.argmax(value, axis=0)
        total = value[before, np.arange(options.size)] + score
        history.append((options, before))
        choice = options
    return _traced(history, int(np.argmax(total)))


def _traced(history: list[tuple[Ints, Ints]], last: int) -> Ints:
    chosen = np.zeros(len(history), np.int64)
    for k in range(len(history) - 1, -1, -1):
        options, before = history[k]
        chosen[k], last = options[last], int(before[last])
    return np.maximum.accumulate(chosen)

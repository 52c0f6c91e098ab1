"""Cut every lane of a job at the borders of its steps.

The borders of one lane are chosen together by dynamic programming among its silences: long ones,
near the border of the job, with the usual bytes since the one before.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.parameters import (
    ALIKE_BYTES,
    BYTES_COST,
    CANDIDATE_SILENCES,
    CUT_RANGE,
    DISTANCE_COST,
    MOSTLY,
    SILENCE_COST,
)
from llmprism.methods.prism.segment.borders import Borders
from llmprism.methods.prism.segment.lanes import Lane
from llmprism.methods.prism.segment.programme import exactness
from llmprism.numerics.arrays import Floats, Ints


def cut_lane(lane: Lane, borders: Borders) -> Ints:
    """Divide ``lane`` at the ``borders``, in two passes: the second one knows its usual offset.

    Step k has the records from ``bounds[k]`` to ``bounds[k + 1]``, shape (steps + 1,).
    """
    count = lane.start.size
    inner = np.searchsorted(lane.start, borders.middle)
    usual = np.diff(lane.sent[np.concatenate(([0], inner, [count]))])
    usual_bytes = float(np.median(usual[usual > 0])) if (usual > 0).any() else 1.0
    steps = usual[1:-1] / usual_bytes
    alike = steps[np.abs(steps - 1) <= ALIKE_BYTES]  # others hold an evaluation, or lack something
    exact = float(exactness(alike[None, :], MOSTLY)[0, 0])
    if lane.silent.size:
        inner = _choose(lane, borders, usual_bytes, 0.0, exact)
        shift = _offset(lane, borders, inner)
        if shift:
            inner = _choose(lane, borders, usual_bytes, shift, exact)
    return np.concatenate(([0], inner, [count]))


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
    options, scores = _candidates(lane, borders, shift)
    total, chosen = np.zeros(1), np.zeros(1, np.int64)
    history: list[tuple[Ints, Ints]] = []
    for k, (option, score) in enumerate(zip(options, scores, strict=True)):
        passed = lane.sent[option][None, :] - lane.sent[chosen][:, None]
        excess = passed / usual - 1
        lacks = np.maximum(-excess, 0) if k else 0.0  # the first one may be cut off
        away = np.clip(excess, lacks, ALIKE_BYTES + lacks)  # an evaluation may be of any size
        cost = np.where(passed < 0, np.inf, BYTES_COST * np.log1p(away / exact))
        value = total[:, None] - cost
        before = np.argmax(value, axis=0)
        total = value[before, np.arange(option.size)] + score
        history.append((option, before))
        chosen = option
    return _traced(history, int(np.argmax(total)))


def _candidates(lane: Lane, borders: Borders, shift: float) -> tuple[list[Ints], list[Floats]]:
    """Records that may begin each step but the first, and how likely each does.

    They follow silences near the border. Or the lane has not begun yet, or has ended.
    """
    at = lane.silent
    begin, end = lane.reached[at - 1], lane.start[at]
    reach = CUT_RANGE * borders.period_ns
    low, high = borders.low + shift, borders.high + shift
    first = np.searchsorted(end, low - reach)
    last = np.searchsorted(begin, high + reach, "right")
    nearest = np.searchsorted(lane.start, (low + high) / 2)
    options, scores = [], []
    for k in range(low.size):
        rows = np.arange(first[k], last[k])
        away = np.maximum(np.maximum(begin[rows] - high[k], low[k] - end[rows]), 0.0)
        score = SILENCE_COST * np.log((end - begin)[rows] / lane.floor)
        score -= DISTANCE_COST * away / borders.period_ns
        best = np.argsort(-score, kind="stable")[:CANDIDATE_SILENCES]
        ends = np.maximum((low[k] - lane.start[0], lane.reached[-1] - high[k]), 0.0)
        unseen = -DISTANCE_COST * ends / borders.period_ns
        options.append(np.concatenate((at[rows[best]], (0, lane.start.size, nearest[k]))))
        scores.append(np.concatenate((score[best], unseen, (-1.0,))))
    return options, scores


def _traced(history: list[tuple[Ints, Ints]], last: int) -> Ints:
    chosen = np.zeros(len(history), np.int64)
    for k in range(len(history) - 1, -1, -1):
        options, before = history[k]
        chosen[k], last = options[last], int(before[last])
    return np.maximum.accumulate(chosen)

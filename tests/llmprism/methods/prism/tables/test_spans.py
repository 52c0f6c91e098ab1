"""Spans of a rank: traffic merged by kind, computation between."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from llmprism.methods.prism.tables import spans as module
from llmprism.methods.prism.tables.spans import laid_out

DP, PP, COMPUTE = range(3)


def spans(records, first, last):
    """Spans (kind, endpoint, step, start, end) of records (src, dst, kind, step, start, end)."""
    records = np.array(sorted(records, key=lambda one: one[4]), np.int64).reshape(-1, 6)
    src, dst, kind, step = (column.astype(np.int32) for column in records[:, :4].T)
    times = (records[:, 4].copy(), records[:, 5].copy())
    counted = np.flatnonzero(kind >= 0).astype(np.int32)
    first, last = np.array(first, np.int64), np.array(last, np.int64)
    place = np.arange(len(first), dtype=np.int32)
    own = (counted, kind[counted].astype(np.int8), step[counted])
    found = []
    for count, start, end in laid_out((place, src, dst, *times), own, first, last):
        assert start.size <= module.PART_ROWS
        where = np.repeat(np.arange(count.size), count)
        cells = np.column_stack((*np.unravel_index(where, (3, *first.shape)), start, end))
        found += [tuple(row) for row in cells.tolist()]
    return found


def of_traffic(found):
    return [one for one in found if one[0] != COMPUTE]


@pytest.fixture(autouse=True, params=[module.PART_ROWS, 2], ids=["whole", "parts"])
def _part(request, monkeypatch):
    monkeypatch.setattr(module, "PART_ROWS", request.param)


def test_touching_or_overlapping_records_of_a_kind_are_one_span():
    records = [(0, 1, PP, 0, 10, 12), (0, 1, PP, 0, 0, 4), (0, 1, PP, 0, 4, 6)]
    found = of_traffic(spans(records, [[0], [0]], [[20], [20]]))
    assert found == [(PP, 0, 0, 0, 6), (PP, 0, 0, 10, 12), (PP, 1, 0, 0, 6), (PP, 1, 0, 10, 12)]


def test_a_record_inside_another_does_not_end_its_span():
    records = [(0, 1, DP, 0, 0, 10), (0, 1, DP, 0, 2, 4), (0, 1, DP, 0, 9, 12)]
    found = of_traffic(spans(records, [[0], [0]], [[12], [12]]))
    assert found == [(DP, 0, 0, 0, 12), (DP, 1, 0, 0, 12)]


def test_kinds_and_steps_are_not_joined():
    records = [(0, 1, DP, 0, 0, 5), (0, 1, PP, 0, 2, 6), (0, 1, DP, 1, 4, 8)]
    found = of_traffic(spans(records, [[0, 5], [0, 5]], [[5, 9], [5, 9]]))
    assert [one[3:] for one in found if one[1] == 0] == [(0, 5), (4, 8), (2, 6)]


def test_computation_fills_the_parts_of_a_step_without_traffic():
    records = [(0, 1, DP, 0, 10, 20), (0, 1, PP, 0, 15, 18), (0, 1, PP, 0, 30, 45)]
    found = spans(records, [[0], [40]], [[40], [80]])
    assert [one[1:] for one in found if one[0] == COMPUTE] == [
        (0, 0, 0, 10), (0, 0, 20, 30), (1, 0, 45, 80)
    ]  # fmt: skip


def test_records_of_other_jobs_do_not_count():
    records = [(0, 1, -1, 0, 2, 4), (0, 1, PP, 0, 3, 5)]
    assert of_traffic(spans(records, [[0]] * 2, [[9]] * 2)) == [(PP, 0, 0, 3, 5), (PP, 1, 0, 3, 5)]


def test_a_step_without_traffic_is_all_computation():
    assert spans([], [[3]], [[9]]) == [(COMPUTE, 0, 0, 3, 9)]


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_the_moments_at_which_something_moves(seed):
    """Every moment of a small world is looked at by itself."""
    draw = np.random.default_rng(seed)
    first, last = np.array([[0, 20]] * 3), np.array([[20, 40]] * 3)
    start = draw.integers(0, 40, 30)
    records = [
        (*draw.permutation(3)[:2].tolist(), int(draw.integers(2)), at // 20, at, at + length)
        for at, length in zip(start.tolist(), draw.integers(1, 6, 30).tolist(), strict=True)
    ]
    found = spans(records, first, last)
    for end in range(3):
        for step in range(2):
            own = [one for one in records if end in one[:2] and one[3] == step]
            moves = {
                kind: _moments([one[4:] for one in own if one[2] == kind]) for kind in (DP, PP)
            }
            free = set(range(20 * step, 20 * step + 20)) - moves[DP] - moves[PP]
            for kind, moments in (*moves.items(), (COMPUTE, free)):
                laid = [one[3:] for one in found if one[:3] == (kind, end, step)]
                assert _moments(laid) == moments
                assert all(a[1] < b[0] for a, b in pairwise(laid))


def _moments(intervals):
    return {moment for start, end in intervals for moment in range(start, end)}

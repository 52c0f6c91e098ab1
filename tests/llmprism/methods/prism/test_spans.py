"""Spans of a rank: traffic merged by kind, computation between."""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.spans import _between, _merged


def spans(columns):
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_touching_or_overlapping_intervals_of_a_cell_are_one_span():
    cell = np.array([1, 0, 0, 0, 1])
    start = np.array([5, 10, 0, 4, 7])
    end = np.array([6, 12, 4, 6, 9])
    merged = _merged(cell, start, end)
    assert spans(merged) == [(0, 0, 6), (0, 10, 12), (1, 5, 6), (1, 7, 9)]


def test_a_span_inside_another_does_not_end_it():
    merged = _merged(np.zeros(3, np.int64), np.array([0, 2, 9]), np.array([10, 4, 12]))
    assert spans(merged) == [(0, 0, 12)]


def test_computation_fills_the_parts_of_a_step_without_traffic():
    cell, start, end = np.array([0, 0, 1]), np.array([10, 30, 50]), np.array([20, 45, 90])
    first, last = np.array([0, 40]), np.array([40, 80])
    free = _between(cell, start, end, first, last)
    assert spans(free) == [(0, 0, 10), (0, 20, 30), (1, 40, 50)]


def test_a_step_without_traffic_is_all_computation():
    nothing = np.empty(0, np.int64)
    free = _between(nothing, nothing, nothing, np.array([3]), np.array([9]))
    assert spans(free) == [(0, 3, 9)]

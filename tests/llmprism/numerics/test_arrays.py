"""Functions that are given arrays part by part."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.numerics import arrays


@pytest.mark.parametrize("size", [8, 64, 1 << 20])
@pytest.mark.parametrize("rows", [0, 1, 10])
def test_parts_give_what_the_whole_gives(size: int, rows: int) -> None:
    values = np.random.default_rng(rows).random((rows, 3))
    sums = arrays.by_parts(lambda part: part.sum(axis=1), values, size)
    assert np.array_equal(sums, values.sum(axis=1))
    kept = arrays.by_parts(lambda part: part[part[:, 0] > 0.5], values, size)
    assert np.array_equal(kept, values[values[:, 0] > 0.5])


def test_the_latest_of_each_group_counts_from_its_first_row() -> None:
    """Also of many groups over days, whose times together do not fit into 64 bits."""
    generator = np.random.default_rng(7)
    group = np.sort(generator.integers(0, 1_000_000, 2_000_000))
    value = group * 5_000_000_000 + generator.integers(0, 100_000_000_000, group.size)
    found = arrays.latest_in_groups(group, value)
    parts = np.split(np.arange(group.size), np.flatnonzero(np.diff(group)) + 1)
    expected = np.concatenate([np.maximum.accumulate(value[rows]) for rows in parts])
    assert np.array_equal(found, expected)
    assert arrays.latest_in_groups(group[:0], value[:0]).size == 0

"""Functions that are given arrays part by part."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.numerics import arrays


@pytest.mark.parametrize("size", [8, 64, 1 << 20])
@pytest.mark.parametrize("rows", [0, 1, 10])
def test_parts_give_what_the_whole_gives(
    size: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "PART_BYTES", size)
    values = np.random.default_rng(rows).random((rows, 3))
    assert np.array_equal(
        arrays.by_parts(lambda part: part.sum(axis=1), values), values.sum(axis=1)
    )
    kept = arrays.by_parts(lambda part: part[part[:, 0] > 0.5], values)
    assert np.array_equal(kept, values[values[:, 0] > 0.5])

"""What an endpoint needs is found among its own records only."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from llmprism.methods.prism.faults.progress import Needs


def test_rows_of_an_endpoint_are_those_of_a_search_in_all_rows() -> None:
    draws = np.random.default_rng(1)
    src, dst = draws.integers(0, 9, (2, 400)).astype(np.int32)
    flows = SimpleNamespace(src=src, dst=dst)
    rows = draws.permutation(400)[:300]
    step = draws.integers(-1, 5, 300)
    part = SimpleNamespace(kind="pp", step=step)
    part.one = SimpleNamespace(traffic=SimpleNamespace(row=rows))
    job = SimpleNamespace(phases=SimpleNamespace(classes=[part]), count=5)
    needs = Needs(SimpleNamespace(flows=flows), job)  # type: ignore[arg-type]
    for end in range(10):  # the last one has no row
        own, steps = needs._with(end)
        expected = (src[rows] == end) | (dst[rows] == end)
        np.testing.assert_array_equal(own, rows[expected])
        np.testing.assert_array_equal(steps, step[expected])

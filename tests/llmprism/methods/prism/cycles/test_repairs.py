"""Divisions with a few cuts too many or too few."""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.divisions import divisions
from llmprism.methods.prism.cycles.repairs import split

MS = 1_000_000


def test_steps_that_a_slow_link_runs_together_are_parted_by_volume():
    starts = [step * 100 * MS + i * MS for step in range(12) for i in range(10)]
    starts[80:110] = [800 * MS + i * 10 * MS for i in range(30)]  # three steps without a silence
    start = np.array(starts, np.int64)
    size = np.full(start.size, 1000)
    traffic = Traffic(
        np.arange(start.size), start, start + 10 * MS, size,
        np.zeros(start.size, np.int64), np.ones(start.size, np.bool_),
    )  # fmt: skip
    best = max(divisions(traffic, 3), key=lambda one: one.quality)
    assert len(best) == 12
    assert best.cuts.tolist() == list(range(10, 120, 10))


def test_a_last_record_of_more_than_a_step_is_not_cut():
    sizes = [1000.0] * 9 + [100.0, 1900.0]
    cuts = np.arange(1, 10)
    before = np.concatenate(([0.0], np.cumsum(sizes)))
    volumes = np.diff(before[np.concatenate(([0], cuts, [len(sizes)]))])
    gaps = np.arange(1, 11), np.full(10, 10)
    found = split(Division(cuts, volumes, 0.01, 1.0, 1.0, 2.0), before, gaps)
    assert found is None or found.cuts.max() < len(sizes)

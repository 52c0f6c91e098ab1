"""The number of steps that classes agree on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.cycles.divisions import divisions
from llmprism.methods.prism.steps.proposals import Proposals
from llmprism.methods.prism.steps.votes import agreed, without_splits
from rings import lines


@pytest.mark.parametrize(
    ("volumes", "count"),
    [
        ([1.0] * 10 + [0.1, 0.9] + [1.0] * 10, 21),
        ([1.0] * 10 + [0.1, 0.9, 0.4, 0.6] + [1.0] * 10, 22),
        ([0.5, 0.5] * 8 + [1.0] * 4, 20),  # most parts are halves: no few are split
        ([1.0] * 22, 22),
    ],
)
def test_a_few_parts_that_a_silence_splits_are_steps(volumes, count):
    """A slow rank makes a silence inside a step longer than those between others."""
    every = np.array(volumes)
    edges = np.cumsum(every)[:-1]
    whole = edges[np.abs(edges - np.rint(edges)) < 1e-9]
    split = Division(np.arange(1, every.size), every, 0.01, 0.9, 0.95, 6.0)
    if every.min() == 1:
        split = Division(split.cuts, every, 0.01, 1.0, 1.0, 6.0)
    kept = np.flatnonzero(np.isin(edges, whole)) + 1
    parts = np.diff(np.concatenate(([0.0], whole, [every.sum()])))
    joined = Division(kept, parts, 0.01, 1.0, 1.0, 1.0)
    assert without_splits(Proposals((), [[split, joined]]), len(split)) == count


def pipeline_and_rings(extra_mb: float) -> tuple[TrafficClass, ...]:
    """Ten steps of a pipeline and of gradients, of which ``extra_mb`` of 4 MB begin an eleventh.

    In the last two steps a rank is slow, so that the ring of gradients waits for it after a first
    chunk, for longer than between steps.
    """
    rows, ring_rows = [], []
    for step in range(11):
        whole = step < 10
        rows += [(100.0 * step + 10 * i, 1.0) for i in range(4 if whole else int(extra_mb))]
        parts = [(60.0, 0.1), (95.0, 3.9)] if step in (8, 9) else [(60.0, 4.0)]
        ring_rows += [(100.0 * step + at, moved) for at, moved in parts] if whole else []
    return tuple(_one_way(np.array(own)) for own in (rows, ring_rows, ring_rows))


def _one_way(rows) -> TrafficClass:
    """Records of 1 ms from the times [ms] and volumes [MB] of some ``rows``."""
    traffic = lines(rows[:, 0].tolist())
    traffic = replace(traffic, size=(rows[:, 1] * 1e6).astype(np.int64))
    return TrafficClass(np.arange(1), two_way=False, traffic=traffic)


@pytest.mark.parametrize("extra_mb", [0, 1, 3])
def test_a_step_that_records_show_in_part_is_not_one_that_a_silence_splits(extra_mb):
    classes = pipeline_and_rings(extra_mb)
    proposed = [divisions(one.traffic, 3) for one in classes]
    assert agreed(Proposals(classes, proposed)) == 10

"""Exchanges of gradients that look like a pipeline, because one direction seems to wait."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.kinds.kinds import _heavier


@pytest.mark.parametrize(
    ("others_mb", "heavier"),
    [
        ([90], {1}),  # the embeddings of a stage, exchanged by two replicas
        ([20], set()),
        ([40], set()),  # other stages move double where chunks close a ring
        ([20, 90], {2}),
        ([], set()),
    ],
)
def test_what_moves_far_more_than_the_stages_do_is_no_stage(others_mb, heavier):
    """Twelve connections move 18 MB each; two of each other class move as much as given."""
    sizes = [(12, 18e6), *((2, 1e6 * moved) for moved in others_mb)]
    classes = [SimpleNamespace(connections=np.arange(n), bytes=n * size) for n, size in sizes]
    assert _heavier(classes, set(range(len(classes)))) == heavier


def test_nothing_is_heavier_than_nothing():
    assert _heavier([], set()) == set()

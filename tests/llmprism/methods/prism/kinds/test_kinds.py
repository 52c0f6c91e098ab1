"""Exchanges of gradients that look like a pipeline."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.kinds.kinds import _heavier, _meshes


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


def couples(*pairs, volume=None):
    """Connections both ways between each of ``pairs``, as one candidate for a pipeline."""
    src = np.array([a for a, b in pairs] + [b for a, b in pairs])
    dst = np.array([b for a, b in pairs] + [a for a, b in pairs])
    total = np.tile(volume or [1000] * len(pairs), 2)
    connections = SimpleNamespace(src=src, dst=dst, total_bytes=total)
    return connections, [SimpleNamespace(connections=np.arange(src.size))]


@pytest.mark.parametrize(
    ("arguments", "meshed"),
    [
        (couples((0, 1), (1, 2), (2, 3)), False),  # a chain
        (couples((0, 1)), False),
        (couples((0, 1), (1, 2), (2, 3), (3, 0)), True),  # a ring both ways
        (couples((0, 1), (1, 2), (2, 3), (3, 0), volume=[2, 2, 2, 1]), False),  # interleaved
        (couples((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)), True),
    ],
)
def test_a_mesh_of_equal_couples_is_no_pipeline(arguments, meshed):
    assert _meshes(*arguments, {0}) == ({0} if meshed else set())

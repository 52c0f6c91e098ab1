"""Pipelines that show by their shape only, since records hold messages of both directions."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.kinds.characters import Character
from llmprism.methods.prism.kinds.lines import lines

RINGS = [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]  # of four stages
STAGES = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]  # of three replicas


def character(groups, pairs, first_ns):
    """Traffic of which records show neither messages nor who waits."""
    first = np.arange(5) * 100.0 + first_ns
    return Character(
        0.0, 0.1, 0.95, 0.8, 0.0, 0.0, False, False, 0.3, 1.6, False, first, first + 50,
        tuple(frozenset(group) for group in groups), frozenset(pairs),
    )  # fmt: skip


def ring(groups, first_ns=40):
    return character(groups, [p for g in groups for p in pairwise([*g, g[0]])], first_ns)


def line(groups, first_ns=10):
    forth = [pair for group in groups for pair in pairwise(group)]
    return character(groups, forth + [pair[::-1] for pair in forth], first_ns)


def found(*characters):
    sizes = [100.0] + [20.0] * (len(characters) - 1)
    own = [
        (SimpleNamespace(two_way=len({p[::-1] for p in c.pairs} & c.pairs) > 0, bytes=size), None)
        for c, size in zip(characters, sizes, strict=True)
    ]
    return lines(own, characters, set(range(len(own))))


def test_a_line_from_one_data_parallel_group_to_the_next_is_a_pipeline():
    assert found(ring(RINGS), line(STAGES)) == {1}


@pytest.mark.parametrize(
    "other",
    [
        ring(STAGES, 10),  # tensor-parallel groups go round a ring
        line([group[:2] for group in STAGES]),  # groups of two may be either
        line(STAGES, 60),  # begins after the gradients
        line([[12, 13, 14, 15]]),  # a tree of a stage whose gradients are of another size
    ],
)
def test_other_shapes_and_places_are_none(other):
    assert found(ring(RINGS), other) == set()


def test_a_tree_inside_data_parallel_groups_is_none():
    assert found(line(RINGS, 40)) == set()
    assert found(ring(RINGS), line([RINGS[0]])) == set()

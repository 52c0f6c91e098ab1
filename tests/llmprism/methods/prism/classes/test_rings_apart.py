"""Both directions of a ring may be two collectives."""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.classes import _one_way_round


def ways_of(*hops):
    src, dst = np.array(hops).T
    forth = _one_way_round(src, dst)
    return None if forth is None else [hop for hop, ahead in zip(hops, forth, strict=True) if ahead]


def test_directions_of_each_ring_are_parted():
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    other = [(4, 5), (5, 6), (6, 4)]
    back = [(b, a) for a, b in [*ring, *other]]
    found = ways_of(*ring, *back, *other)
    assert set(found) in (
        {*ring, *other}, {*ring, *back[4:]}, {*back[:4], *other}, set(back),
    )  # fmt: skip


def test_a_line_and_a_mesh_and_a_couple_are_no_rings():
    assert ways_of((0, 1), (1, 0), (1, 2), (2, 1)) is None
    every = [(a, b) for a in range(4) for b in range(4) if a != b]
    assert ways_of(*every) is None
    assert ways_of((0, 1), (1, 0)) is None


def test_a_ring_in_one_direction_only_is_not_parted():
    assert ways_of((0, 1), (1, 2), (2, 0)) is None

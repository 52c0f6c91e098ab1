"""Both directions of a ring may be two collectives."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from llmprism.methods.prism.classes.classes import _split_by_record
from llmprism.methods.prism.classes.rings_apart import one_way_round


def ways_of(*hops):
    src, dst = np.array(hops).T
    forth = one_way_round(src, dst)
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


RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def split(typical):
    """The parts of both directions of a ring whose hops have these typical records."""
    src, dst = np.array([*RING, *((b, a) for a, b in RING)]).T
    sizes = np.array(typical, np.int64)
    connections = SimpleNamespace(src=src, dst=dst, typical_bytes=sizes, sample_bytes=0.0)
    back = np.roll(sizes, len(RING))
    parts = _split_by_record(connections, np.arange(8), np.maximum(sizes, back), True)
    return sorted(part.tolist() for part in parts)


def test_directions_of_a_ring_with_other_records_are_two_classes():
    assert split([100] * 4 + [300] * 4) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_few_hops_of_a_ring_that_merge_more_messages_are_no_class():
    assert split([100, 100, 100, 100, 100, 100, 300, 300]) == [[*range(8)]]
    assert split([100] * 4 + [100, 300, 300, 300]) == [[*range(8)]]

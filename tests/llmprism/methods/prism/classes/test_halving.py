"""All-reduces by halving show in volumes alone: 1, 1/2, 1/4 with the partners of every rank."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.classes.halving import halving


def classes_of(*levels):
    """Connections and two-way classes, from couples and their volume for each class."""
    rows = [
        (a, b, volume, i)
        for i, (couples, volume) in enumerate(levels)
        for pair in couples
        for a, b in (pair, pair[::-1])
    ]
    src, dst, volume, level = np.array(rows, np.int64).T
    connections = SimpleNamespace(src=src, dst=dst, total_bytes=volume)
    own = [np.flatnonzero(level == i) for i in range(len(levels))]
    return connections, [SimpleNamespace(connections=one, two_way=True) for one in own]


def partners(distance, ranks=8):
    return [(i, i ^ distance) for i in range(ranks) if i < i ^ distance]


REDUCED = [(partners(1), 4_000_000), (partners(2), 2_010_000), (partners(4), 1_000_000)]


def test_three_partners_with_halves_are_one_all_reduce():
    assert halving(*classes_of(*REDUCED)) == {0, 1, 2}


def test_stages_beside_it_are_not_part_of_it():
    stages = [(i, 8 + i) for i in range(8)]
    again = [([(8 + a, 8 + b) for a, b in own], volume) for own, volume in REDUCED]
    assert halving(*classes_of(*REDUCED, *again, (stages, 700_000))) == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    "levels",
    [
        [REDUCED[0], (partners(2), 2_050_000)],
        [REDUCED[0], (partners(2), 2_100_000), REDUCED[2]],
        [REDUCED[0], (partners(2), 4_000_000), (partners(4), 4_000_000)],
        [REDUCED[0], REDUCED[1], (partners(4)[:1], 1_000_000)],
    ],
    ids=["two", "no half", "doubling", "one couple"],
)
def test_other_volumes_are_no_halving(levels):
    assert len(halving(*classes_of(*levels))) < len(levels)


def test_lost_records_hide_no_halves():
    """Couples of a class lack some of their bytes, each another part of them."""
    connections, classes = classes_of(*REDUCED)
    lost = np.random.default_rng(3).uniform(0.0, 0.05, connections.total_bytes.size)
    connections.total_bytes = connections.total_bytes * (1 - lost)
    assert halving(connections, classes) == {0, 1, 2}


def with_guests(ranks, gradients=8_000_000):
    """Directed volumes among ``ranks``: guests have the odd numbers below twice their count."""
    hosts = 1 << (ranks.bit_length() - 1)
    guests = ranks - hosts
    place = [*range(0, 2 * guests, 2), *range(2 * guests, ranks)]
    rows = []
    for i in range(guests):
        rows += [(2 * i, 2 * i + 1, 3 * gradients // 2), (2 * i + 1, 2 * i, gradients)]
    for level in range(hosts.bit_length() - 1):
        for a, b in partners(1 << level, hosts):
            size = gradients >> level
            rows += [(place[a], place[b], size), (place[b], place[a], size)]
    return rows


def directed(rows):
    """Connections and classes of equal volumes; two-way where the other way moves as much."""
    src, dst, volume = np.array(rows, np.int64).T
    connections = SimpleNamespace(src=src, dst=dst, total_bytes=volume)
    both = {(a, b): v for a, b, v in rows}
    keys = [(v, both.get((b, a)) == v) for a, b, v in rows]
    own = [np.array([k == key for k in keys]).nonzero()[0] for key in sorted(set(keys))]
    ways = [key[1] for key in sorted(set(keys))]
    pairs = zip(own, ways, strict=True)
    return connections, [SimpleNamespace(connections=c, two_way=w) for c, w in pairs]


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 12])
def test_ranks_beyond_a_power_of_two_are_guests_of_one_all_reduce(ranks):
    connections, classes = directed(with_guests(ranks))
    assert halving(connections, classes) == set(range(len(classes)))


def test_a_guest_with_another_ratio_or_a_couple_too_few_is_no_halving():
    rows = with_guests(6)
    uneven = [(a, b, v * 4 // 5 if (a, b) == (2, 3) else v) for a, b, v in rows]
    connections, classes = directed(uneven)
    found = {end for i in halving(connections, classes) for end in ends(connections, classes[i])}
    assert 3 not in found
    lacking = [row for row in rows if {row[0], row[1]} != {0, 4}]
    assert halving(*directed(lacking)) == set()


def ends(connections, one):
    return {*connections.src[one.connections].tolist(), *connections.dst[one.connections].tolist()}


def test_four_ranks_have_two_exact_sizes():
    halves = [(partners(1, 4), 4_000_000), (partners(2, 4), 2_001_000)]
    assert halving(*classes_of(*halves)) == {0, 1}
    near = [halves[0], (partners(2, 4), 2_030_000)]
    assert halving(*classes_of(*near)) == set()
    uneven = [(partners(1, 4)[:1], 4_000_000), (partners(1, 4)[1:], 3_000_000), halves[1]]
    assert halving(*classes_of(*uneven)) == set()


def test_whole_steps_show_sizes_that_lost_records_hide():
    """Totals differ by a tenth, since more records of one connection were lost."""
    connections, classes = directed(with_guests(6))
    whole = [connections.total_bytes[one.connections] / 20 for one in classes]
    connections.total_bytes[:3] = connections.total_bytes[:3] * 9 // 10
    assert halving(connections, classes) != set(range(len(classes)))
    assert halving(connections, classes, whole) == set(range(len(classes)))


def test_all_steps_show_sizes_that_merged_records_hide():
    """Most steps of one couple seem to move more, and some less."""
    connections, classes = directed(with_guests(6))
    whole = [connections.total_bytes[one.connections] / 20 for one in classes]
    whole[0] = whole[0] * 1.08
    assert halving(connections, classes, whole) == set(range(len(classes)))

"""Which records count once, and which connections answer others, from flows made by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.answers import find_answers
from llmprism.methods.prism.kinds.characters import Character
from llmprism.methods.prism.kinds.exchanges import _whole_groups
from llmprism.methods.prism.kinds.kinds import _parallel, _passing
from llmprism.methods.prism.records.connections import find_connections

MS = 1_000_000
NONE = np.empty(0)
PLAIN = Character(
    0.0, 0.0, 1.0, 0.0, 0.0, 0.0, False, False, 0.0, 1.0, True, NONE, NONE, (), frozenset()
)  # fmt: skip
MESSAGE, SUM = 6_000_000, 1_200_000_000


def table(rows, ports=None, meta=None, **optional) -> FlowTable:
    """Flows from rows of (start [ns], end [ns], source, destination, bytes)."""
    start, end, src, dst, size = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    more = {name: np.array(values, np.int64) for name, values in optional.items()}
    if ports is not None:
        more |= {"src_port": np.array(ports, np.int64), "dst_port": np.full(len(rows), 4791)}
    codes = [column.astype(np.int32) for column in (src, dst)]
    blank = np.full(start.size, -1, np.int32)
    return FlowTable(start, end, *codes, size, blank, ["a", "b"], [], more, meta or {})


def exchange(messages_meanwhile: bool):
    """Six steps: small messages both ways, and a far larger sum of the same ranks."""
    rows, ports = [], []
    for step in range(6):
        for src in (0, 1):
            begin = step * 200 * MS
            sums = begin + (0 if messages_meanwhile else 100) * MS
            for number in range(5):
                at = begin + (10 * number + 3 * src) * MS
                rows.append((at, at + MS, src, 1 - src, MESSAGE))
                ports.append(100 + src)
            rows.append((sums, sums + 60 * MS, src, 1 - src, SUM))
            ports.append(200 + src)
    return rows, ports


def test_activations_beside_a_far_larger_sum_of_the_same_ranks_are_no_answer_to_it():
    rows, ports = exchange(messages_meanwhile=False)
    found = find_connections(table(rows, ports))
    assert found.carries.all()


def test_short_packets_answer_and_long_ones_do_not():
    rows, ports = exchange(messages_meanwhile=True)
    small = np.array([row[4] for row in rows]) == MESSAGE
    for packet, carried in ((52, 2), (4096, 4)):
        packets = [
            row[4] // (packet if mine else 4096) for row, mine in zip(rows, small, strict=True)
        ]
        assert find_connections(table(rows, ports, packets=packets)).carries.sum() == carried


def test_short_records_of_full_packets_are_pieces_of_a_transfer():
    rows = [(step * 100 * MS, step * 100 * MS + 50 * MS, 0, 1, MESSAGE) for step in range(6)]
    rows += [(60 * MS, 61 * MS, 0, 1, 24_000), (70 * MS, 71 * MS, 0, 1, 92)]
    rows += [(80 * MS, 81 * MS, 0, 1, 900)]
    packets = [*([MESSAGE // 8000] * 6), 3, 1, 1]
    assert find_connections(table(rows, packets=packets)).small.tolist() == [
        *([False] * 7), True, True,
    ]  # fmt: skip
    assert find_connections(table(rows)).small.tolist() == [*([False] * 6), True, True, True]


@pytest.mark.parametrize("meta", [{}, {"observation_point": "ingress"}])
def test_short_messages_that_follow_each_other_at_once_all_count(meta):
    rows = []
    for step in range(20):
        begin = step * 10 * MS
        rows += [(begin + 8_000 * i, begin + 8_000 * i + 2_000, 0, 1, 30_000) for i in range(8)]
        rows.append((begin + 4 * MS, begin + 5 * MS, 1, 0, MESSAGE))
    assert not find_connections(table(rows, meta=meta)).small.any()


def test_what_both_sides_of_a_transfer_record_counts_once():
    rows = []
    for step in range(20):
        begin = step * 10 * MS
        rows += [(begin + late, begin + MS + late, 0, 1, MESSAGE) for late in (0, 3_000)]
    assert find_connections(table(rows)).small.sum() == 20
    assert not find_connections(table(rows, meta={"observation_point": "egress"})).small.any()


@pytest.mark.parametrize(("ports", "repeated"), [([7] * 22, 2), (None, 0)])
def test_of_a_few_records_that_repeat_the_ports_show_that_they_do(ports, repeated):
    """Most of what both sides recorded was equal and is set aside; two differ by a tick."""
    rows = [(step * 10 * MS, step * 10 * MS + MS, 0, 1, MESSAGE) for step in range(20)]
    rows += [(begin + 15_000, end, *rest) for begin, end, *rest in (rows[3], rows[9])]
    assert find_connections(table(sorted(rows), ports)).small.sum() == repeated


def test_of_two_connections_with_one_volume_that_of_the_same_records_is_answered():
    """A hop of a ring may move as many bytes as keys and values between the same two ranks."""
    keys = SimpleNamespace(
        src=np.array([0, 1, 0]), dst=np.array([1, 0, 1]),
        total_bytes=np.array([600, 600, 600]) * MS, typical_bytes=np.array([17, 17, 126]) * MS,
        sample_bytes=0.0,
    )  # fmt: skip
    found = find_answers(keys, np.arange(3))
    assert (found.lesser > 0).tolist() == [True, True, False]


def test_edges_of_a_ring_with_records_of_other_sizes_are_one_group():
    """Groups of experts are whole, however the records of their edges are cut."""
    edges = [(1000.0, [(0, 1), (2, 3)]), (1001.0, [(1, 2), (3, 0)]), (700.0, [(4, 5)])]
    own = [
        (SimpleNamespace(bytes=size * len(pairs), connections=np.arange(len(pairs))), None)
        for size, pairs in edges
    ]
    characters = [
        replace(PLAIN, pairs=frozenset(pairs), groups=tuple(frozenset(pair) for pair in pairs))
        for _, pairs in edges
    ]
    assert set(_whole_groups(own, characters, {0, 1, 2})) == {frozenset({0, 1, 2, 3})}


def test_couples_of_other_replicas_are_of_the_pipeline_whatever_their_lengths():
    """Sequences of one replica are longer, so that its messages differ in size."""
    rings = replace(PLAIN, groups=(frozenset({0, 1}), frozenset({2, 3})))
    couples = [
        replace(PLAIN, pairs=frozenset(pairs))
        for pairs in ({(0, 2), (2, 0)}, {(1, 3), (3, 1)}, {(4, 5), (5, 4)})
    ]
    assert _parallel([*couples, rings], {0, 1, 2}, {0}) == {0, 1}


def classes_of(*volumes):
    """Classes of two connections each, with so many MB."""
    return [
        SimpleNamespace(connections=np.array([2 * i, 2 * i + 1]), bytes=volume * MS)
        for i, volume in enumerate(volumes)
    ]


@pytest.mark.parametrize(("volume", "expected"), [(60, {0, 1}), (66, {0})])
def test_stages_that_rest_longer_move_as_much_as_others(volume, expected):
    """Records of the others hold two messages."""
    known = SimpleNamespace(typical_bytes=np.array([8, 8, 4, 4]) * MS)
    busy, resting = (
        replace(PLAIN, outstanding=0.9, leads=1.0, rest=rest, messages=3.0, pairs=frozenset({pair}))
        for rest, pair in ((0.5, (0, 1)), (0.7, (2, 3)))
    )
    assert _passing(known, classes_of(60, volume), [busy, resting], {0, 1}) == expected


def test_gradients_of_two_servers_are_no_pipeline_beside_one_that_host_work_makes_rest():
    """One direction is now and then ahead of the other; in a pipeline, it begins every step."""
    known = SimpleNamespace(typical_bytes=np.array([26, 26, 2, 2]) * MS)
    classes = classes_of(520, 60)
    gradients, messages = (
        replace(PLAIN, outstanding=0.9, rest=0.7, messages=3.0, pairs=frozenset({pair, pair[::-1]}))
        for pair in ((0, 1), (0, 2))
    )
    gradients = replace(gradients, together=0.8, leads=0.1, ahead=0.12)
    messages = replace(messages, together=0.0, leads=1.0, ahead=0.09)
    assert gradients.is_pipeline
    assert _passing(known, classes, [gradients, messages], {0, 1}) == {1}

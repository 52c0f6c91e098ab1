"""Which records count once, and which connections answer others, from flows made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.records.connections import find_connections

MS = 1_000_000
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

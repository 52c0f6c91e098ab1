"""Kinds of pairs: what answers data, and what only passes beside them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.records.connections import find_connections
from llmprism.methods.prism.tables.pair_table import _beside, _of_other_ports

DATA, ACKNOWLEDGES, ASKS, REPLIES = range(4)


def beside_a_store(ports: bool):
    """Data from 0 to 1, acknowledged, and a store at 0 that 1 asks half as often."""
    rows = []
    for i in range(20):
        at = i * 1_000_000
        rows += [(at, at + 500_000, 0, 1, 1_000_000, 7000, 8000),
                 (at + 100, at + 500_100, 1, 0, 20_000, 8000, 7000)]  # fmt: skip
        if i % 2:
            rows += [(at + 600_000, at + 610_000, 1, 0, 200, 9000, 29_500),
                     (at + 600_100, at + 610_100, 0, 1, 200, 29_500, 9000)]  # fmt: skip
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    src, dst = (column.astype(np.int32) for column in columns[2:4])
    more = {"src_port": columns[5], "dst_port": columns[6]} if ports else {}
    blank = np.full(len(rows), -1, np.int32)
    return FlowTable(*columns[:2], src, dst, columns[4], blank, ["a", "b"], [], more, {})


def test_a_reply_has_the_ports_exchanged():
    reply = find_connections(beside_a_store(ports=True)).reply
    assert reply.tolist() == [ACKNOWLEDGES, DATA, REPLIES, ASKS]
    assert find_connections(beside_a_store(ports=False)).reply.tolist() == [1, 0]


@pytest.mark.parametrize(("found", "expected"), [([1, 2], [False, True]), ([2], [False])])
def test_a_store_is_no_acknowledgement_where_another_connection_has_the_ports(found, expected):
    connections = find_connections(beside_a_store(ports=True))
    ends = pd.DataFrame({"src": connections.src, "dst": connections.dst})
    other = _of_other_ports(connections, ends.loc[found], ends.loc[[DATA]])
    assert other.tolist() == expected


@pytest.mark.parametrize(("small", "others"), [(2000, 1), (400_000, 0)])
def test_only_short_records_beside_data_are_control_messages(small, others):
    """Where records hold many messages, the first of a step may be a small part of them."""
    size = np.array([50_000_000, small] * 5)
    start = np.arange(size.size) * 1_000_000
    zeros = np.zeros(size.size, np.int32)
    blank = np.full(size.size, -1, np.int32)
    flows = FlowTable(
        start, start + 900_000, zeros, zeros + 1, size, blank, ["a", "b"], [], {}, {}
    )  # fmt: skip
    connections = find_connections(flows)
    assert connections.small.any()
    table = pd.DataFrame({"src": [0], "dst": [1], "kind": ["dp"], "confidence": [0.99]})
    assert len(_beside(connections, table)) == others

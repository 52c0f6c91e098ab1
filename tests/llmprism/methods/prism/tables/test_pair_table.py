"""Kinds of pairs: what answers data, and what only passes beside them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.records.connections import find_connections
from llmprism.methods.prism.tables.pair_table import _beside, _doubted, _of_other_ports

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


def records(rows):
    """A table of records (start, end, source, destination, bytes) without ports."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    src, dst = (column.astype(np.int32) for column in columns[2:4])
    blank = np.full(len(rows), -1, np.int32)
    names = [f"n{end}" for end in range(int(max(src.max(), dst.max())) + 1)]
    return FlowTable(*columns[:2], src, dst, columns[4], blank, names, [], {}, {})


@pytest.mark.parametrize(("small_bytes", "kinds"), [(48, ["other"]), (655_616, [])])
def test_a_bucket_of_few_gradients_is_no_control_message(small_bytes, kinds):
    """Buckets of 64 MB, and a rest that is less than a hundredth of that in every step."""
    rows = [(at * 100, at * 100 + 50, 0, 1, small_bytes if at % 5 == 4 else 64_000_000)
            for at in range(40)]  # fmt: skip
    connections = find_connections(records(rows))
    table = pd.DataFrame({"src": [0], "dst": [1], "kind": ["dp"], "confidence": [0.99]})
    assert _beside(connections, table)["kind"].tolist() == kinds


@pytest.mark.parametrize(("quality", "kind"), [(0.99, "other"), (0.78, "unknown")])
def test_what_does_not_repeat_is_unknown_where_steps_are_unsure(quality, kind):
    """Members exchange records of a third of the recording; a service gets no answer."""
    rows = [(at * 900, at * 900 + 800, *ends, 10**9)
            for at in range(3) for ends in ((0, 1), (1, 0), (0, 2))]  # fmt: skip
    connections = find_connections(records(rows))
    kinds = np.array(["other"] * 3, dtype=object), np.full(3, 0.97)
    job = SimpleNamespace(phases=SimpleNamespace(quality=quality, classes=[]))
    _doubted([job], connections, np.array([0, 0, -1]), kinds)
    assert kinds[0].tolist() == [kind, kind, "other"]

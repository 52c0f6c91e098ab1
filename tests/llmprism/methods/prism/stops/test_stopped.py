"""A rank of a ring that stops: what the hops sent since their last whole collective shows which."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from llmprism import diagnose

STEP_NS, MS = 100_000_000, 1_000_000
CHUNK = 10_000_000  # bytes, in a millisecond
MISSING = 3
EPOCH = 1_700_000_000_000_000_000


def whole(servers: int, step: int, begin_ms: int, chunks: int, lasts_ms: int) -> list[Any]:
    """The hops of a finished collective."""
    begin = EPOCH + step * STEP_NS + begin_ms * MS
    return [
        (begin, begin + lasts_ms * MS, f"a{i}", f"a{(i + 1) % servers}", chunks * CHUNK)
        for i in range(servers)
    ]


def broken(servers: int, step: int, begin_ms: int) -> list[Any]:
    """The hops of a collective that one rank never joins."""
    begin = EPOCH + step * STEP_NS + begin_ms * MS
    order = [(MISSING + k) % servers for k in range(1, servers - 1)]
    return [
        (begin, begin + k * MS, f"a{i}", f"a{(i + 1) % servers}", k * CHUNK)
        for k, i in enumerate(order, 1)
    ]


@pytest.fixture
def stopped_in(simple_topology):
    def found(rows: list[Any], servers: int) -> pd.DataFrame:
        columns = ["start_ns", "end_ns", "src", "dst", "bytes"]
        frame = pd.DataFrame(rows, columns=columns).sort_values("start_ns").assign(path=None)
        names = [f"a{i}" for i in range(servers)]
        findings = diagnose(frame, simple_topology(names, names), method="prism").findings
        return findings[findings["symptom"] == "stopped"]

    return found


@pytest.mark.parametrize("bridged", [0, 1, 4])
def test_a_hop_whose_records_are_merged_is_of_the_same_ring(stopped_in, bridged):
    rows = []
    for step in range(16):
        for begin_ms in (60, 72):
            hops = whole(6, step, begin_ms, 10, 10)
            rows += hops[:bridged] + hops[bridged + 1 :]
        rows.append(whole(6, step, 60, 20, 22)[bridged])
    found = stopped_in(rows + broken(6, 16, 60), 6)
    assert found["culprit"].tolist() == [f"a{MISSING}"]


def test_a_long_record_of_many_bytes_hides_no_rank_that_is_late(stopped_in):
    rows = [row for step in range(10) for row in whole(12, step, 10, 66, 66)]
    found = stopped_in(rows + broken(12, 10, 60), 12)
    assert found["culprit"].tolist() == [f"a{MISSING}"]


def test_first_chunks_that_are_little_beside_a_record_of_a_whole_step_count(stopped_in):
    steps = [*range(16), *range(216, 232)]  # it goes on after 20 s
    rows = [row for step in steps for row in whole(4, step, 10, 600, 40)]
    found = stopped_in(rows + broken(4, 16, 10), 4)
    assert found["culprit"].tolist() == [f"a{MISSING}"]

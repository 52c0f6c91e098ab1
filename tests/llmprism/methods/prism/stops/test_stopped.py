"""A rank of a ring that stops: what the hops sent since their last whole collective shows which."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from llmprism import diagnose
from small_jobs import simple_topology

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


def stopped_in(rows: list[Any], servers: int) -> pd.DataFrame:
    columns = ["start_ns", "end_ns", "src", "dst", "bytes"]
    frame = pd.DataFrame(rows, columns=columns).sort_values("start_ns").assign(path=None)
    attempt = (frame["start_ns"] - EPOCH) // (100 * STEP_NS)  # each one has its own ports
    frame = frame.assign(src_port=5000 + attempt, dst_port=4791)
    names = [f"a{i}" for i in range(servers)]
    findings = diagnose(frame, simple_topology(names, names), method="prism").findings
    return findings[findings["symptom"] == "stopped"]


@pytest.mark.parametrize("bridged", [0, 1, 4])
def test_a_hop_whose_records_are_merged_is_of_the_same_ring(bridged):
    rows = []
    for step in range(16):
        for begin_ms in (60, 72):
            hops = whole(6, step, begin_ms, 10, 10)
            rows += hops[:bridged] + hops[bridged + 1 :]
        rows.append(whole(6, step, 60, 20, 22)[bridged])
    found = stopped_in(rows + broken(6, 16, 60), 6)
    assert found["culprit"].tolist() == [f"a{MISSING}"]


def test_a_long_record_of_many_bytes_hides_no_rank_that_is_late():
    rows = [row for step in range(10) for row in whole(12, step, 10, 66, 66)]
    found = stopped_in(rows + broken(12, 10, 60), 12)
    assert found["culprit"].tolist() == [f"a{MISSING}"]


def test_first_chunks_that_are_little_beside_a_record_of_a_whole_step_count():
    steps = [*range(16), *range(216, 232)]  # it goes on after 20 s
    rows = [row for step in steps for row in whole(4, step, 10, 600, 40)]
    found = stopped_in(rows + broken(4, 16, 10), 4)
    assert found["culprit"].tolist() == [f"a{MISSING}"]


def test_a_rank_that_never_joins_the_first_collective_of_a_job_is_named():
    rows = [row for step in range(200, 216) for row in whole(6, step, 60, 20, 22)]
    assert stopped_in(rows, 6).empty
    found = stopped_in(broken(6, 0, 60) + rows, 6)
    assert found["culprit"].tolist() == [f"a{MISSING}"]


@pytest.mark.parametrize("silent", [1, 2])
def test_a_rank_of_the_only_pipeline_that_got_a_message_and_passed_none_on_is_named(silent):
    """Three stages pass messages on, and back; the job begins again after 20 s."""
    hops = [(0, 1), (1, 2), (2, 1), (1, 0)]
    sent = [(step, hop) for step in [*range(16), *range(216, 232)] for hop in range(4)]
    rows = []
    for step, hop in [*sent, *((16, hop) for hop in range(silent))]:
        src, dst = hops[hop]
        for number in range(4):
            begin = EPOCH + step * STEP_NS + (12 * number + 10 * hop) * MS
            rows.append((begin, begin + MS, f"a{src}", f"a{dst}", CHUNK))
    found = stopped_in(rows, 3)
    assert found["culprit"].tolist() == [f"a{silent}"]

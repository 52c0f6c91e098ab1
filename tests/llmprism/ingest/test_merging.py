"""Order of time with bounded memory; a flow from several observation points is one flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from llmprism.ingest.points import SEEN_TWICE, WITHOUT_PORTS, SeveralPoints
from llmprism.ingest.records import batch
from llmprism.ingest.writing import TimeOrder
from llmprism.io.notes import Notes

MS = 1_000_000
FLOW = {"src": "a", "dst": "b", "src_port": 1, "dst_port": 2, "protocol": 6, "bytes": 100}


@pytest.mark.parametrize(("rows", "run_rows"), [(5_000, 700), (5_000, 10_000), (0, 10), (150, 1)])
def test_records_in_any_order_are_sorted_by_time(rows: int, run_rows: int, tmp_path: Path) -> None:
    start = np.random.default_rng(3).integers(0, 900, rows)
    order = TimeOrder(tmp_path, run_rows)
    for part in np.array_split(np.arange(rows), 9 if run_rows > 1 else rows):
        count = part.size
        order.add(
            batch(
                {
                    "start_ns": start[part], "end_ns": start[part] + 1, "bytes": part,
                    "src": ["a"] * count, "dst": ["b"] * count,
                }
            )
        )  # fmt: skip
    merged = pa.concat_tables([batch({"start_ns": []}), *order.merged()])
    assert merged["start_ns"].to_pylist() == sorted(start.tolist())
    assert sorted(merged["bytes"].to_pylist()) == list(range(rows))


def joined(*records: dict[str, Any], size: int = 1000) -> tuple[list[dict[str, Any]], Notes]:
    rows = sorted(({**FLOW, **one} for one in records), key=lambda one: one["start_ns"])
    names = {name for row in rows for name in row}
    parts = [rows[i : i + size] for i in range(0, len(rows), size)]
    tables = (batch({n: [row.get(n) for row in part] for n in names}) for part in parts)
    notes = Notes()
    out = pa.concat_tables(SeveralPoints(2 * MS, notes).join(tables))
    return out.to_pylist(), notes


def at(point: str, start_ms: float, end_ms: float, **other: Any) -> dict[str, Any]:
    return {
        "observer": point, "start_ns": int(start_ms * MS), "end_ns": int(end_ms * MS), **other,
    }  # fmt: skip


def test_the_points_that_saw_a_flow_are_its_path() -> None:
    rows, notes = joined(at("leaf3", 0.2, 9.2), at("leaf0", 0, 9), at("spine1", 0.1, 9.1))
    assert [row["path"] for row in rows] == ["leaf0|spine1|leaf3"]
    assert notes.set_aside[SEEN_TWICE] == 2


def test_a_path_begins_at_the_sources_switch_although_the_clock_is_too_coarse() -> None:
    rows = [at(point, 0, 9) for point in ("l3", "l0", "s1")]
    homes = {"a": "l0", "b": "l3"}
    table = batch({name: [row.get(name) for row in [{**FLOW, **one} for one in rows]]
                   for name in {**FLOW, **rows[0]}})  # fmt: skip
    (out,) = SeveralPoints(2 * MS, Notes(), homes).join(iter([table]))
    assert out["path"].to_pylist() == ["l0|s1|l3"]


def test_a_path_follows_a_flow_that_is_rerouted() -> None:
    bursts = [at("l0", t, t + 5) for t in (0, 20, 40)]
    bursts += [at("s1", 0.1, 5.1), at("s2", 20.1, 25.1), at("s2", 40.1, 45.1)]
    rows, _ = joined(*bursts, *(at("l3", t + 0.2, t + 5.2) for t in (0, 20, 40)))
    assert [row["path"] for row in rows] == ["l0|s1|l3", "l0|s2|l3", "l0|s2|l3"]


def test_a_retransmission_at_the_same_point_is_kept() -> None:
    rows, notes = joined(at("l0", 0, 1), at("l0", 0, 1), at("l1", 0.1, 1.1), at("l1", 0.1, 1.1))
    assert [row["observer"] for row in rows] == ["l0", "l0"]
    assert notes.set_aside[SEEN_TWICE] == 2


def test_records_lost_at_the_first_point_come_from_another() -> None:
    rows, _ = joined(at("l0", 0, 5), at("l1", 0.1, 5), at("l1", 20, 25), at("l2", 20.1, 25))
    assert [(row["observer"], row["start_ns"]) for row in rows] == [("l0", 0), ("l1", 20 * MS)]


def test_other_flows_at_other_points_are_other_flows() -> None:
    rows, _ = joined(at("l0", 0, 5), at("l1", 0, 5, src_port=9), at("l1", 0, 5, dst_qp=7))
    assert len(rows) == 3


def test_points_that_sample_count_a_flow_once_although_nothing_overlaps() -> None:
    rows, _ = joined(
        *(at("l0", t, t, sampling=1000) for t in range(0, 100, 20)),
        *(at("l1", t, t, sampling=1000) for t in range(10, 100, 20)),
    )
    assert {row["observer"] for row in rows} == {"l0"}


def test_without_ports_nothing_is_joined_and_this_is_reported() -> None:
    rows, notes = joined(at("l0", 0, 5, src_port=None), at("l1", 0, 5, src_port=None))
    assert len(rows) == 2
    assert notes.remarks == [WITHOUT_PORTS]


@pytest.mark.parametrize("size", [7, 50, 10_000])
def test_long_times_in_many_batches_count_every_burst_once(size: int) -> None:
    bursts = [at(p, t * 50 + d, t * 50 + d + 9) for t in range(400) for p, d in POINTS.items()]
    rows, notes = joined(*bursts, size=size)
    assert [row["start_ns"] for row in rows] == [t * 50 * MS for t in range(400)]
    assert {row["path"] for row in rows} == {"l0|s0|l1"}
    assert notes.set_aside[SEEN_TWICE] == 800


POINTS = {"l0": 0, "s0": 0.1, "l1": 0.2}

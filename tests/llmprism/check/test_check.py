"""``llmprism check``: damaged records lose the results that need them; a setting is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from llmprism.check.command import check_app
from llmprism.ingest.points import SeveralPoints
from llmprism.ingest.records import batch
from llmprism.ingest.writing import TimeOrder
from llmprism.io.notes import Notes

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
CASE = CAPTURES / "b_dp4pp2"
MS = 1_000_000
TIMES = ["start_ns", "end_ns"]

Change = Callable[[pd.DataFrame], pd.DataFrame]


def page(
    path: Path, change: Change, notes: Mapping[str, str] | None = None, topology: bool = True
) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Check a capture's records after a change; the figures, and the stages by name."""
    frame = change(pd.read_parquet(CASE / "flows.parquet"))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table.replace_schema_metadata(dict(notes or {})), path)
    arguments = [str(path), "--json", "--quiet"]
    arguments += ["--topology", str(CASE / "topology.json")] if topology else []
    done = CliRunner().invoke(check_app, arguments)
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    return content["figures"], {one["stage"]: one for one in content["stages"]}


def same(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def test_good_records_can_do_everything(tmp_path: Path) -> None:
    figures, stages = page(tmp_path / "f.parquet", same)
    assert {one["answer"] for one in stages.values()} == {"can"}
    assert all(not one["mend"] for one in stages.values())
    truth = pd.read_parquet(CASE / "truth/steps.parquet")
    length = (truth["end_ns"] - truth["start_ns"]).median()
    assert figures["step_ns"] == pytest.approx(length, rel=0.02)
    assert figures["clock_error_ns"] < 1 * MS  # one clock made all records


@pytest.mark.parametrize(("name", "gap_ms"), [("flows_gap1ms", 1), ("flows", 5)])
def test_the_idle_gap_is_measured_where_notes_lack_it(
    name: str, gap_ms: int, tmp_path: Path
) -> None:
    def other(_frame: pd.DataFrame) -> pd.DataFrame:
        return pd.read_parquet(CASE / f"{name}.parquet")

    figures, stages = page(tmp_path / "f.parquet", other)
    assert figures["idle_gap_ns"] == pytest.approx(gap_ms * MS, rel=0.1)
    assert "idle gap about" in stages["micro-batches"]["figures"]


def coarse(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{name: frame[name] // (1000 * MS) * (1000 * MS) for name in TIMES})


def joined(frame: pd.DataFrame) -> pd.DataFrame:
    """The records of an exporter whose idle timeout is longer than everything."""
    keys = ["src", "dst", "src_port", "dst_port", "protocol"]
    how = {"start_ns": "min", "end_ns": "max", "bytes": "sum", "packets": "sum", "path": "first"}
    return frame.groupby(keys, as_index=False, observed=True).agg(how)


def without_ports(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=["src_port", "dst_port"])


def without_path(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=["path"])


def skewed(frame: pd.DataFrame) -> pd.DataFrame:
    """One switch's clock is 9 ms ahead: more than 1 % of a step."""
    leaf = frame["path"].astype(str).str.split("|").str[0]
    ahead = (leaf == sorted(leaf.unique())[0]) * 9 * MS
    return frame.assign(**{name: frame[name] + ahead for name in TIMES})


def short(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["start_ns"] < frame["start_ns"].min() + 300 * MS]


def packets(frame: pd.DataFrame) -> pd.DataFrame:
    """Records of one packet each, as a sampling switch has them."""
    size = 4154 * 2000
    return frame.assign(end_ns=frame["start_ns"], bytes=size, packets=2000, payload=size)


@pytest.mark.parametrize(
    ("change", "notes", "stage", "mend"),
    [
        (coarse, {}, "steps", "times in"),
        (joined, {}, "steps", "idle timeout"),
        (same, {"sampling": "1:1000"}, "steps", "sampling 1:1 instead of 1:1000"),
        (packets, {"sampling": "1:2000"}, "layouts", "sampling 1:1 instead of 1:2000"),
        (packets, {"sampling": "1:2000"}, "slow NIC or link", "sampling 1:1 instead of 1:2000"),
        (packets, {}, "slow NIC or link", "export first and last packet"),
        (same, {"idle_gap_ns": str(2 * 10**9)}, "micro-batches", "idle (inactive) timeout of 8"),
        (same, {"clock_error_ns": str(50 * MS)}, "slow ranks", "synchronise the switches' clocks"),
        (skewed, {}, "slow ranks", "synchronise the switches' clocks within 8"),
        (without_ports, {}, "parallel connections", "both ports"),
        (without_ports, {}, "kinds of traffic", "both ports"),
        (without_path, {}, "slow switch or link", "leaves and spines"),
        (short, {}, "steps", "record at least ten steps"),
    ],
)
def test_missing_results_are_named_with_the_setting_that_they_need(
    change: Change, notes: dict[str, str], stage: str, mend: str, tmp_path: Path
) -> None:
    _, stages = page(tmp_path / "f.parquet", change, notes)
    assert stages[stage]["answer"] in {"cannot", "partly"}
    assert mend in stages[stage]["mend"]
    assert any(mark.isdigit() for mark in stages[stage]["figures"])


def test_without_a_topology_only_link_rates_are_unknown(tmp_path: Path) -> None:
    _, stages = page(tmp_path / "f.parquet", same, topology=False)
    assert {name for name, one in stages.items() if one["answer"] == "cannot"} == {"load of links"}


def test_records_of_unknown_addresses_ask_for_a_topology_that_has_them(tmp_path: Path) -> None:
    def renamed(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(src="192.0.2.1", dst="192.0.2.2")

    figures, stages = page(tmp_path / "f.parquet", renamed)
    assert figures["records"] == 0
    assert "--topology" in stages["jobs and pairs"]["mend"]


@pytest.mark.parametrize("ahead_ms", [0.0, 0.7, -1.5])
def test_points_with_both_directions_show_the_difference_of_their_clocks(
    ahead_ms: float, tmp_path: Path
) -> None:
    """Two switches, 0.1 ms apart; the second one's clock is ahead."""
    rows = []
    for i in range(40):
        there = {"src": "a", "dst": "b", "src_port": 1, "dst_port": 2}
        back = {"src": "b", "dst": "a", "src_port": 2, "dst_port": 1}
        for ends, first, second in ((there, 0.0, 0.1), (back, 20.1, 20.0)):
            for point, late in (("l0", first), ("l1", second + ahead_ms)):
                start = round((100 * i + 50 + late) * MS)
                rows.append(
                    {**ends, "observer": point, "start_ns": start, "end_ns": start + 5 * MS}
                )
    order = TimeOrder(tmp_path)
    order.add(batch({name: [row[name] for row in rows] for name in rows[0]} | {"bytes": [1] * 160}))
    notes = Notes()
    list(SeveralPoints(5 * MS // 2, notes).join(order.merged()))
    assert notes.clock_error_ns == pytest.approx(abs(ahead_ms) * MS, abs=1)

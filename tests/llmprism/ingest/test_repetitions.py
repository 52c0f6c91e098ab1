"""Records of two exporters without a column that names them: counted once, and remarked on."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ingested import read

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
REPEATED = "record of a transmission that another exporter recorded as well"
COLUMNS = ["start_ns", "end_ns", "src", "dst", "src_port", "dst_port", "protocol"]
COLUMNS += ["bytes", "packets"]
US = 1_000


def records(case: str) -> pd.DataFrame:
    return pd.read_parquet(CAPTURES / case / "flows.parquet").astype({"src": str, "dst": str})


def written(path: Path, *parts: pd.DataFrame) -> Path:
    rows = pd.concat([part[COLUMNS] for part in parts])
    rows.sort_values("end_ns", kind="stable").to_csv(path, index=False)
    return path


def later(rows: pd.DataFrame, by_ns: int) -> pd.DataFrame:
    return rows.assign(start_ns=rows.start_ns + by_ns, end_ns=rows.end_ns + by_ns)


@pytest.mark.parametrize("late_ns", [0, 3 * US, 80 * US])
def test_what_two_exporters_saw_counts_once(late_ns: int, tmp_path: Path) -> None:
    once = records("a2_ddp4")
    leaving = once[once.src < once.dst]  # the second one sees a part
    rows, done = read(written(tmp_path / "two.csv", once, later(leaving, late_ns)))
    volume = sum(row["bytes"] for row in rows)
    assert once.bytes.sum() <= volume <= 1.001 * once.bytes.sum()
    assert set(done.notes.set_aside) == {REPEATED}
    assert any("--map observer=COLUMN" in one for one in done.notes.remarks)


@pytest.mark.parametrize("case", ["a2_ddp4", "b_dp4pp2", "c_two_jobs"])
@pytest.mark.parametrize("tick_ns", [1, 10**6, 10**9])
def test_what_one_exporter_saw_is_kept(case: str, tick_ns: int, tmp_path: Path) -> None:
    """Also on a coarse clock, on which short records of equal size are equal."""
    rows = records(case)
    coarse = rows.assign(**{name: rows[name] // tick_ns * tick_ns for name in COLUMNS[:2]})
    after, done = read(written(tmp_path / "one.csv", coarse))
    assert len(after) == len(rows)
    assert not done.notes.set_aside
    assert not any("--map observer" in one for one in done.notes.remarks)


def test_exporters_with_other_timeouts_are_remarked_on(tmp_path: Path) -> None:
    rows = records("a2_ddp4")
    long = rows.assign(bytes=rows.bytes + 1)
    _, done = read(written(tmp_path / "two.csv", rows, later(long, 5 * US)))
    assert any("traffic may count twice" in one for one in done.notes.remarks)


def test_a_record_that_was_exported_twice_is_left_to_the_diagnosis(tmp_path: Path) -> None:
    rows = records("a2_ddp4")
    twice = rows.nlargest(3, "bytes")
    after, done = read(written(tmp_path / "one.csv", rows, twice))
    assert len(after) == len(rows) + len(twice)
    assert not done.notes.set_aside


def test_records_that_name_their_exporter_repeat_nothing(tmp_path: Path) -> None:
    """A collector that knows starts to a second moves records of one connection onto each other."""
    rows = records("a2_ddp4")
    shift_ns = 700 * US * (pd.Series(range(len(rows))) // 25 % 2)
    moved = later(rows.reset_index(drop=True), shift_ns).assign(observer="192.0.2.1")
    moved[[*COLUMNS, "observer"]].to_csv(tmp_path / "named.csv", index=False)
    after, done = read(tmp_path / "named.csv")
    assert len(after) == len(rows)
    assert not done.notes.set_aside
    assert done.notes.remarks == []

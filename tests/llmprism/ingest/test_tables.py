"""CSV, Parquet, nfdump CSV, Zeek, goflow2 and Akvorado: known answers, bad lines counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingested import read, read_text
from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import find
from llmprism.io.flows import read_flows
from llmprism.io.topology import read_topology
from prism_common.errors import UserError

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
DAY = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2026-01-01T00:00:00.000000005Z", "2026-01-01T01:00:01+01:00"),
        ("2026-01-01 00:00:00.000000005", "2026-01-01T00:00:01Z"),
        ("1767225600.000000005", "1767225601"),
        ("1767225600000.000005", "1767225601000"),
        ("1767225600000000.005", "1767225601000000"),
        ("1767225600000000005", "1767225601000000000"),
    ],
)
def test_times_of_any_form_are_exact(start: str, end: str) -> None:
    text = f"src,dst,start,end,bytes\na,b,{start},{end},10\n"
    rows, _ = read_text(text)
    assert (rows[0]["start_ns"], rows[0]["end_ns"]) == (DAY + 5, DAY + 1_000_000_000)


def test_a_mapping_names_the_columns_and_the_unit() -> None:
    text = "from;to;t0;len;octets;p\n10.0.0.1;::ffff:10.0.0.2;7;3;99;UDP\n"
    ours = ("src", "dst", "start", "duration", "bytes", "protocol")
    mapping = dict(zip(ours, text.partition("\n")[0].split(";"), strict=True))
    rows, _ = read_text(text, mapping=mapping, time_unit="ms")
    times = {"start_ns": 7_000_000, "end_ns": 10_000_000}
    ends = {"src": "10.0.0.1", "dst": "10.0.0.2"}
    assert rows == [{**times, **ends, "bytes": 99, "protocol": 17, "sampling": None}]


def test_missing_columns_are_named_all_at_once() -> None:
    with pytest.raises(UserError) as caught:
        read_text("x,y\n1,2\n", mapping={"src": "nope"})
    message = str(caught.value)
    assert "no column 'nope'" in message
    assert "for 'start', 'dst', 'bytes'" in message


def test_bad_lines_are_set_aside_and_counted(tmp_path: Path) -> None:
    lines = ["src,dst,start,end,bytes", "a,b,1,2,3", "a,b", ",b,1,2,3", "a,b,x,2,3", "a,b,1,2,"]
    lines += ["a,b,9,2,3", "a,b,1,2,-3", "a,b,1,2,1e300", "\udcffa,b,1,2,3"]
    path = tmp_path / "a.csv"
    path.write_bytes("\n".join(lines).encode("utf-8", errors="surrogateescape"))
    rows, done = read(path)
    assert len(rows) == 2
    assert done.notes.set_aside == {
        "line with another number of columns than the header": 1,
        "no address, or one that cannot be read": 1,
        "no time, or one that cannot be read": 1,
        "no size, or one that cannot be read": 2,
        "ends before it starts": 1,
        "negative size": 1,
    }


def test_from_and_to_leave_out_records_outside(tmp_path: Path) -> None:
    lines = "".join(f"a,b,{DAY + i},{DAY + i},1\n" for i in range(10))
    path = written(tmp_path / "a.csv", "src,dst,start,end,bytes\n" + lines)
    rows, done = read(path, from_ns=DAY + 2, to_ns=DAY + 5)
    assert [row["start_ns"] - DAY for row in rows] == [2, 3, 4]
    assert done.notes.set_aside == {"outside the time asked for": 7}


def test_folders_and_globs_and_compressed_files_merge_in_time(tmp_path: Path) -> None:
    head = "src,dst,start,end,bytes\n"
    (tmp_path / "in" / "deep").mkdir(parents=True)
    written(tmp_path / "in" / "late.csv", head + f"a,b,{DAY + 3},{DAY + 4},3\n")
    packed = (head + f"a,b,{DAY + 1},{DAY + 2},1\n").encode()
    (tmp_path / "in" / "deep" / "early.csv.gz").write_bytes(gzip.compress(packed))
    for names in ([tmp_path / "in"], [tmp_path / "in" / "*.csv", tmp_path / "in" / "**" / "*.gz"]):
        rows, _ = read(*names)
        assert [row["bytes"] for row in rows] == [1, 3]


def test_a_cut_gzip_gives_its_readable_part(tmp_path: Path) -> None:
    lines = "".join(f"a,b,{DAY + i},{DAY + i * 7919},{i}\n" for i in range(400_000))
    packed = gzip.compress(("src,dst,start,end,bytes\n" + lines).encode())
    (tmp_path / "a.csv.gz").write_bytes(packed[: len(packed) * 3 // 4])
    rows, done = read(tmp_path / "a.csv.gz")
    assert 0 < len(rows) < 400_000
    assert done.notes.set_aside["file not read to its end"] == 1


def test_a_folder_may_hold_other_files_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    written(folder / "a.csv", "src,dst,start,end,bytes\n10.0.0.1,10.0.0.2,1,2,3\n")
    written(folder / "README", "notes")
    rows, done = read(folder)
    assert len(rows) == 1
    assert done.notes.set_aside == {"file of a folder that is no telemetry": 1}
    assert any("README" in one for one in done.notes.remarks)
    with pytest.raises(UserError, match="README"):
        read(folder / "README", folder)
    (folder / "a.csv").unlink()
    with pytest.raises(UserError, match="not recognised"):
        read(folder)


def test_unknown_formats_and_missing_files_are_one_error(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    with pytest.raises(UserError, match="there is nothing in it"):
        read(tmp_path / "empty.csv")
    (tmp_path / "a.bin").write_bytes(bytes(range(7)) * 10)
    with pytest.raises(UserError, match="its format is not recognised"):
        read(tmp_path / "a.bin")
    with pytest.raises(UserError, match="there is no such file"):
        read(tmp_path / "none", tmp_path / "*.none")


@pytest.mark.parametrize("case", sorted(one.name for one in CAPTURES.iterdir()))
def test_a_flow_table_of_a_capture_is_read_back_equal(case: str) -> None:
    original = CAPTURES / case / "flows.parquet"
    rows, done = read(original)
    columns = ["start_ns", "end_ns", "src", "dst", "bytes", "src_port", "dst_port", "packets"]
    columns += ["payload", "protocol", "path"]
    before = pd.read_parquet(original)[columns].astype({"src": str, "dst": str, "path": str})
    after = pd.DataFrame(rows)[columns].astype({"src": str, "dst": str, "path": str})
    pd.testing.assert_frame_equal(
        before.sort_values(columns, ignore_index=True),
        after.sort_values(columns, ignore_index=True),
        check_dtype=False,
    )
    assert not done.notes.set_aside


def test_the_diagnoser_reads_the_table_and_its_notes(tmp_path: Path) -> None:
    table = pa.table(
        {"src": ["10.77.0.10"], "dst": ["10.77.1.12"], "start_ns": [DAY], "end_ns": [DAY + 1],
         "bytes": [5]}
    )  # fmt: skip
    noted = table.replace_schema_metadata({"idle_gap_ns": "5000000"})
    pq.write_table(noted, tmp_path / "a.parquet")
    ingest(find([str(tmp_path / "a.parquet")]), tmp_path / "flows.parquet", Options())
    topology = read_topology(CAPTURES / "a2_ddp4" / "topology.json")
    flows, intake = read_flows(tmp_path / "flows.parquet", topology)
    assert (len(flows), intake.set_aside) == (1, {})
    assert flows.meta == {"idle_gap_ns": "5000000", "sampling": "1:1"}


def test_nfdump_csv_takes_the_length_to_the_millisecond() -> None:
    head = "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,ra"
    line = "2026-01-01 00:00:00,2026-01-01 00:00:00,0.010,10.0.0.1,10.0.0.2,1000,29500,TCP"
    text = f"{head}\n{line},...AP...,0,0,100,150000,0,0,127.0.0.1\nSummary\n"
    text += "flows,bytes,packets,avg_bps,avg_pps,avg_bpp\n1,150000,100,1,1,1500\n"
    rows, done = read_text(text)
    row = rows[0]
    assert (row["start_ns"], row["end_ns"]) == (DAY, DAY + 10_000_000)
    assert (row["bytes"], row["packets"], row["protocol"]) == (150_000, 100, 6)
    assert any("whole seconds" in one for one in done.notes.remarks)

"""Tables as exporters and people write them: each value in its unit, nothing taken for 0."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ingested import read, read_text
from llmprism.ingest.columns import OURS
from llmprism.ingest.commands import ingest_app
from prism_common.errors import UserError

REJECTED = "flow that AWS rejected"
CASES = Path(__file__).parents[2] / "fixtures" / "cases"
DAY = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z
MS = 1_000_000
NO_TIME = "no time, or one that cannot be read"


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def times(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["start_ns"] - DAY, row["end_ns"] - row["start_ns"]) for row in rows]


@pytest.mark.parametrize(
    ("duration", "ns"),
    [
        ("1.5", 1_500 * MS),
        ("1.5e0", 1_500 * MS),
        ("00:00:01.500", 1_500 * MS),
        ("1d 02:03:04.5", 93_784_500 * MS),
        ("1 day, 0:00:01", 86_401_000 * MS),
        ("250ms", 250 * MS),
        ("17 us", 17_000),
        ("0", 0),
    ],
)
def test_durations_as_text(duration: str, ns: int) -> None:
    text = f'src,dst,start,duration,bytes\na,b,2026-01-01T00:00:00,"{duration}",10\n'
    rows, _ = read_text(text)
    assert times(rows) == [(0, ns)]


@pytest.mark.parametrize("duration", ["soon", "1:2", "12:00", "", "1e99", "nan", "9" * 30, "5 kg"])
def test_a_duration_that_cannot_be_read_is_never_0(duration: str) -> None:
    text = f"src,dst,start,duration,bytes\na,b,5,{duration},10\na,b,5,1,10\n"
    rows, done = read_text(text)
    assert len(rows) == 1
    assert done.notes.set_aside == {NO_TIME: 1}


@pytest.mark.parametrize(
    ("start", "duration", "values"),
    [
        ("start_ms", "duration_ms", "1767225600550.014,0.417"),
        ("TimeFlowStartNs", "duration_us", "1767225600550014000,417"),
        ("flowStartMilliseconds", "flowDurationMilliseconds", "1767225600550.014,0.417"),
        ("first-seen (us)", "dur.s", "1767225600550014,0.000417"),
        ("start_s", "durationms", "1767225600.550014,0.417"),
    ],
)
def test_the_unit_in_a_columns_name_is_used(
    start: str, duration: str, values: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.csv", f"{start},{duration},src,dst,bytes\n{values},a,b,5\n")
    for mapping in ({}, {"start": start, "duration": duration}):
        rows, _ = read(path, mapping=mapping)
        assert times(rows) == [(550_014_000, 417_000)]


def test_small_times_count_in_the_unit_of_their_name() -> None:
    rows, _ = read_text("start_ns,end_ns,src,dst,bytes\n1,2,a,b,5\n")
    assert (rows[0]["start_ns"], rows[0]["end_ns"]) == (1, 2)


def test_a_unit_that_contradicts_a_name_is_an_error(tmp_path: Path) -> None:
    path = CASES / "duration-ms-read-as-seconds" / "startdur.csv"
    arguments = [str(path), "--map", "start=start_ms,duration=duration_ms", "--out"]
    done = CliRunner().invoke(ingest_app, [*arguments, str(tmp_path / "o"), "--time-unit", "s"])
    assert done.exit_code == 1
    assert "'duration_ms' is in ms by its name" in done.stderr
    assert not (tmp_path / "o").exists()
    done = CliRunner().invoke(ingest_app, [*arguments, str(tmp_path / "o"), "--time-unit", "ms"])
    assert done.exit_code == 0
    rows = pq.read_table(tmp_path / "o" / "flows.parquet").to_pylist()
    assert times(rows) == [(550_014_000, 417_000)] * 8


@pytest.mark.parametrize("name", ["clickhouse.csv", "nfdump17.csv", "v6.csv"])
def test_columns_of_collectors_are_found(name: str) -> None:
    rows, done = read(CASES / "column-names" / name)
    assert times(rows) == [(550 * MS, 0)] * 3
    assert [(row["bytes"], row["dst_port"]) for row in rows] == [(20_844_800, 4791)] * 3
    unused = [one for one in done.notes.remarks if "not used" in one]
    assert unused == (["columns that are not used: InIfName"] if name == "clickhouse.csv" else [])


def test_counts_beside_a_sampling_rate_are_multiplied_by_it() -> None:
    text = "TimeFlowStartNs,SrcAddr,DstAddr,Bytes,Packets,SamplingRate\n{},a,b,1500,1,2000\n"
    rows, _ = read_text(text.format(DAY))
    assert [rows[0][name] for name in ("bytes", "packets", "sampling")] == [3_000_000, 2000, 2000]


NEW = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows"
FAST = "cnt,af,firstSeen,lastSeen,proto,srcAddr,srcPort,dstAddr,dstPort,srcAS,dstAS,input,output,"
FAST += "flags,srcTos,packets,bytes"
LINE = "Date first seen         Duration         Proto      Src IP Addr:Port          "
LINE += "Dst IP Addr:Port   Packets    Bytes Flows"
OWN = "Date first seen        ,Date last seen         ,Proto,     Src IP Addr,Src Pt,"
OWN += "     Dst IP Addr,Dst Pt, Packets,   Bytes"
T0, T1 = "2026-01-01 00:00:00.250", "2026-01-01 00:00:01.750"


@pytest.mark.parametrize(
    "text",
    [
        f"{NEW}\n{T0},1.500,6,10.0.0.1,1000,10.0.0.2,2000,10,15000,1\n",
        f"{FAST}\n1,2,{DAY // MS + 250},{DAY // MS + 1750},6,10.0.0.1,1000,10.0.0.2,2000,0,0,1,2,"
        "...AP...,0,10,15000\n",
        "srcAddr,dstAddr,firstSeen,lastSeen,bytes,packets,srcPort,dstPort,proto\n"
        "10.0.0.1,10.0.0.2,1767225600.250,1767225601.750,15000,10,1000,2000,6\n",
        f"{OWN}\n{T0},{T1},TCP  ,        10.0.0.1,  1000,        10.0.0.2,  2000,      10,"
        "   15000\n",
    ],
    ids=["csv", "csv-fast", "csv of own columns", "fmt of own columns"],
)  # fmt: skip
def test_nfdumps_present_forms(text: str) -> None:
    rows, done = read_text(text)
    assert times(rows) == [(250 * MS, 1_500 * MS)]
    names = ("src", "src_port", "dst", "dst_port", "protocol", "packets", "bytes")
    expected = ("10.0.0.1", 1000, "10.0.0.2", 2000, 6, 10, 15_000)
    assert tuple(rows[0][name] for name in names) == expected
    has_text = T0 in text
    assert any("TZ=UTC" in one for one in done.notes.remarks) == has_text


def test_what_nfdump_prints_for_people_is_refused_with_the_remedy() -> None:
    with pytest.raises(UserError, match=r"no table(.|\n)*nfdump -o csv"):
        read_text(f"{LINE}\n{T0}  00:00:01.500 TCP  a:1  ->  b:2  10  15  1\n")


def test_a_time_that_nfdump_does_not_know_is_never_1970() -> None:
    lines = ["0000-00-00 00:00:00.000", "1970-01-01 00:00:00.000", T0]
    text = "".join(f"{one},0,6,10.0.0.1,1,10.0.0.2,2,1,5,1\n" for one in lines)
    rows, done = read_text(f"{NEW}\n{text}")
    assert times(rows) == [(250 * MS, 0)]
    assert done.notes.set_aside == {NO_TIME: 2}


VPC = (
    "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start "
)
VPC += "end action log-status"


@pytest.mark.parametrize("has_header", [True, False])
def test_aws_flow_logs(has_header: bool, tmp_path: Path) -> None:
    flow = "10.0.0.1 10.0.0.2 4791 4791 17 10 40960 1767225600 1767225660 {} OK"
    lines = [f"2 123456789012 eni-{one} {flow.format('ACCEPT')}" for one in "ab"]
    lines += [f"2 123456789012 eni-c {flow.format('REJECT')}".replace("0.1", "0.9")]
    lines += [f"2 123456789012 eni-c {'- ' * 7}1767225600 1767225660 - NODATA"]
    text = "\n".join([VPC, *lines][not has_header :]) + "\n"
    path = tmp_path / "aws.log.gz"
    path.write_bytes(gzip.compress(text.encode()))
    rows, done = read(path)
    assert times(rows) == [(0, 60_000 * MS)]
    assert (rows[0]["bytes"], rows[0]["protocol"], rows[0]["path"]) == (40_960, 17, "?")
    assert done.notes.set_aside == {
        REJECTED: 1,
        "no address, or one that cannot be read": 1,
        "record of a flow that another observation point counted": 1,
    }


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("start end src dst bytes\n5  6   a b 7\n\t5\t6 a   b 7  \n", None),
        ("# start   end src dst bytes\n5 6 a b 7\n5 6 a b 7\n", None),
        ("start^end^src^dst^bytes\n5^6^a^b^7\n5^6^a^b^7\n", "^"),
        ("start\tend\tsrc\tdst\tbytes\ta,b,c,d,e,f\n5\t6\ta\tb\t7\t\n5\t6\ta\tb\t7\t,\n", "tab"),
    ],
)
def test_other_separators(text: str, separator: str | None, tmp_path: Path) -> None:
    arguments = [str(written(tmp_path / "a.txt", text)), "--out", str(tmp_path / "o")]
    arguments += ["--separator", separator] if separator else []
    done = CliRunner().invoke(ingest_app, arguments)
    assert done.exit_code == 0, done.output
    rows = pq.read_table(tmp_path / "o" / "flows.parquet").to_pylist()
    assert [(row["start_ns"], row["bytes"]) for row in rows] == [(5_000_000_000, 7)] * 2


def test_spaces_at_the_end_of_a_piece_of_the_file() -> None:
    """The file is read in pieces of 64 KiB: a piece ends everywhere in a line."""
    for width in range(20, 32):
        line = "5 6  a b \t 7".ljust(width) + "\n"
        text = "start end src dst bytes\n" + line * 4000
        rows, done = read_text(text)
        assert (len(rows), done.notes.set_aside.total()) == (4000, 0)
        assert {row["bytes"] for row in rows} == {7}


LONG = """
import pathlib, sys
from llmprism.ingest.commands import ingest_app
ingest_app([sys.argv[1], "--out", sys.argv[2], "--quiet"], standalone_mode=False)
status = pathlib.Path("/proc/self/status").read_text()  # ru_maxrss begins with the parent's
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conn.log.gz", "conn.json.gz", "flows.csv.gz"])
def test_a_gzip_that_grows_a_thousandfold_needs_little_memory(name: str, tmp_path: Path) -> None:
    """A few hundred kB stand for 400 MB of lines with an address of 100,000 characters."""
    host = "x" * 100_000
    head = {
        "conn.log.gz": "#separator \\x09\n#fields\tts\tid.orig_h\tid.resp_h\torig_ip_bytes\n",
        "conn.json.gz": "",
        "flows.csv.gz": "start,src,dst,bytes\n",
    }[name]
    line = {
        "conn.log.gz": f"1767225600.5\t{host}\t10.0.0.2\t100\n",
        "conn.json.gz": f'{{"ts": 1767225600.5, "id.orig_h": "{host}", "id.resp_h": "b"}}\n',
        "flows.csv.gz": f"1767225600.5,{host},10.0.0.2,100\n",
    }[name]
    good = line.replace(host, "10.0.0.1").replace('"b"', '"b", "orig_ip_bytes": 9')
    with gzip.open(tmp_path / name, "wt", compresslevel=1) as file:
        file.write(head + good)
        for _ in range(4000):
            file.write(line)
    command = [sys.executable, "-c", LONG, str(tmp_path / name), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed, peak_mib = done.stdout.splitlines()
    assert printed.startswith("1 flow records")
    assert int(peak_mib) < 600


@pytest.mark.parametrize("separator", ["--", "", "\n", "§", '"'])
def test_what_separates_nothing_is_refused(separator: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "start,end,src,dst,bytes\n5,6,a,b,7\n")
    arguments = [str(path), "--out", str(tmp_path / "o"), "--separator", separator]
    done = CliRunner().invoke(ingest_app, arguments)
    assert done.exit_code == (0 if not separator else 1)
    assert "separates no columns" in done.stderr or not separator


def test_help_names_what_can_be_mapped() -> None:
    printed = CliRunner().invoke(ingest_app, ["--help"], env={"COLUMNS": "400"}).output
    assert all(name in printed for name in OURS)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_text_of_another_encoding(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("start,end,src,dst,bytes,ort\n5,6,a,b,7,Zürich\n".encode(encoding))
    rows, done = read(path)
    assert [row["bytes"] for row in rows] == [7]
    assert not done.notes.set_aside


@pytest.mark.parametrize("unit", [None, "s", "ms", "ns"])
@pytest.mark.parametrize(
    "time",
    ["9999-12-31 23:59:59", "2262-04-12T00:00:00", "0001-01-01", "9223372036854775807",
     "-9223372036854775808", "18446744073709551615", "99999999999999999999", "1e300"],
)  # fmt: skip
def test_times_beyond_what_64_bits_hold(unit: str | None, time: str) -> None:
    text = f"src,dst,start,end,bytes\na,b,{time},{time},1\na,b,5,6,1\n"
    rows, done = read_text(text, time_unit=unit, from_ns=-(10**30))
    assert len(rows) + done.notes.set_aside.total() == 2
    assert done.notes.set_aside
    _, done = read_text(text, time_unit=unit, to_ns=10**30, from_ns=10**29)
    assert done.notes.records == 0


def test_instants_in_arrow_types_that_ns_do_not_reach(tmp_path: Path) -> None:
    far = pa.array([253_402_300_799, 5], pa.timestamp("s"))
    length = pa.array([10**15, 1], pa.duration("s"))
    columns = {"src": ["a", "a"], "dst": ["b", "b"], "bytes": pa.array([1, 2**64 - 1], pa.uint64())}
    pq.write_table(pa.table({**columns, "start": far, "duration": length}), tmp_path / "a.parquet")
    rows, done = read(tmp_path / "a.parquet")
    assert rows == []
    assert done.notes.set_aside == {NO_TIME: 1, "no size, or one that cannot be read": 1}


def test_a_mapping_to_a_key_of_the_same_name(tmp_path: Path) -> None:
    flow = {"time_flow_start_ns": DAY, "time_flow_end_ns": DAY + 9, "end": DAY + 5, "bytes": 3}
    flow |= {"src_addr": "a", "dst_addr": "b"}
    path = written(tmp_path / "g.json", json.dumps(flow) + "\n")
    rows, _ = read(path, mapping={"start": "end"})
    assert times(rows) == [(5, 4)]


def test_the_format_of_another_table_is_an_error_or_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "start,end,src,dst,bytes\n2026-01-01,2026-01-01,a,b,7\n")
    rows, _ = read(path, reader="nfdump_csv")
    assert times(rows) == [(0, 0)]
    with pytest.raises(UserError, match="no column"):
        read_text("x,y\n1,2\n", reader="vpc_flow_log")


@pytest.mark.parametrize("text", ["x,y\n1,2\n", "\0\1\2", ""])
def test_a_failed_ingest_leaves_no_folder(text: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", text)
    done = CliRunner().invoke(ingest_app, [str(path), "--out", str(tmp_path / "new" / "o")])
    assert done.exit_code == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.csv"]
    (tmp_path / "old").mkdir()
    CliRunner().invoke(ingest_app, [str(path), "--out", str(tmp_path / "old")])
    assert (tmp_path / "old").is_dir()

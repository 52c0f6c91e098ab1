"""Export datagrams by the layout of their RFCs; the records of real captures sent through them."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from datagrams import (
    FIELDS,
    IPFIX_TIMES,
    NOW_S,
    V9_TIMES,
    S,
    a_set,
    captured,
    ipfix,
    ntp,
    record,
    template,
    v5,
    v9,
)
from ingested import read
from prism_common.errors import UserError

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
EXPORTS = CAPTURES.with_name("exports")
MS = 1_000_000


def capture_rows(case: str) -> pd.DataFrame:
    rows = pd.read_parquet(CAPTURES / case / "flows.parquet")
    return rows.astype({"src": str, "dst": str}).sort_values("end_ns", ignore_index=True)


def chunks(rows: pd.DataFrame, size: int) -> Iterator[Any]:
    for start in range(0, len(rows), size):
        yield list(rows.iloc[start : start + size].itertuples())


COLUMNS = ["start_ns", "end_ns", "src", "dst", "src_port", "dst_port", "protocol", "bytes"]
COLUMNS += ["packets"]


def same(before: pd.DataFrame, after: list[dict[str, Any]]) -> None:
    left, right = (
        pd.DataFrame(one)[COLUMNS].sort_values(COLUMNS, ignore_index=True)
        for one in (before, after)
    )
    pd.testing.assert_frame_equal(left, right, check_dtype=False)


@pytest.mark.parametrize("case", ["a2_ddp4", "c_two_jobs"])
def test_the_records_of_a_capture_sent_as_ipfix_are_read_back_equal(
    case: str, tmp_path: Path
) -> None:
    rows = capture_rows(case)
    parts = [ipfix(a_set(2, template(FIELDS | IPFIX_TIMES)))]
    for part in chunks(rows, 20):
        body = b"".join(record(row, ntp(row.start_ns), ntp(row.end_ns)) for row in part)
        parts.append(ipfix(a_set(256, body)))
    (tmp_path / "flows.ipfix").write_bytes(b"".join(parts))
    after, done = read(tmp_path / "flows.ipfix")
    same(rows, after)
    assert not done.notes.set_aside


def test_the_records_of_a_capture_sent_as_netflow_v9_are_right_to_the_millisecond(
    tmp_path: Path,
) -> None:
    """The header's wall clock has whole seconds; times must not jump by its fraction."""
    rows = capture_rows("b_dp4pp2")
    boot = int(rows["start_ns"].min()) // MS * MS - 5_000 * MS
    out = b""
    for i, part in enumerate(chunks(rows, 20)):
        sent = max(row.end_ns for row in part) + 100 * MS
        body = b"".join(
            record(row, *(struct.pack(">I", (t - boot) // MS) for t in (row.start_ns, row.end_ns)))
            for row in part
        )
        sets = [a_set(0, template(FIELDS | V9_TIMES))] if i == 0 else []
        out += v9(*sets, a_set(256, body), uptime=(sent - boot) // MS, seconds=sent // S)
    (tmp_path / "flows.v9").write_bytes(out)
    after, done = read(tmp_path / "flows.v9")
    found = pd.DataFrame(after)
    shift = int(found["start_ns"].min()) - int(rows["start_ns"].min())
    assert abs(shift) < 50 * MS  # the fraction of the second that no datagram of the file tells
    whole = shift // MS * MS + int(rows["start_ns"].min()) % MS
    before = rows.assign(
        **{name: (rows[name] // MS) * MS + whole // MS * MS for name in ("start_ns", "end_ns")}
    )
    offset = int(found["start_ns"].min()) - int(before["start_ns"].min())
    same(before.assign(start_ns=before.start_ns + offset, end_ns=before.end_ns + offset), after)
    assert not done.notes.set_aside


def test_v5_scales_sampled_counts(tmp_path: Path) -> None:
    flow = ("10.0.0.1", "10.0.0.2", 2, 3000, 90_000, 90_250, 1000, 4791, 17)
    (tmp_path / "a.v5").write_bytes(v5([flow], 100_000, (1 << 14) | 100, 250 * MS))
    rows, _ = read(tmp_path / "a.v5")
    row = rows[0]
    assert (row["bytes"], row["packets"], row["sampling"]) == (300_000, 200, 100)
    assert (row["start_ns"], row["end_ns"]) == (
        (NOW_S - 10) * S + 250 * MS,
        (NOW_S - 9) * S - 500 * MS,
    )


def test_a_counter_of_uptime_that_wraps_keeps_the_times(tmp_path: Path) -> None:
    flow = ("10.0.0.1", "10.0.0.2", 1, 100, 2**32 - 1000, 500, 1, 2, 6)
    (tmp_path / "a.v5").write_bytes(v5([flow], 2000))
    rows, _ = read(tmp_path / "a.v5")
    assert (rows[0]["start_ns"], rows[0]["end_ns"]) == ((NOW_S - 3) * S, NOW_S * S - 1500 * MS)


ROW = pd.Series(
    {"src": "10.0.0.1", "dst": "10.0.0.2", "src_port": 1, "dst_port": 2, "protocol": 6,
     "bytes": 1500, "packets": 1}
)  # fmt: skip


def one_v9(first: int, last: int) -> bytes:
    return a_set(256, record(ROW, struct.pack(">I", first), struct.pack(">I", last)))


def test_a_template_may_come_after_its_data_or_never(tmp_path: Path) -> None:
    late = a_set(0, template(FIELDS | V9_TIMES))
    content = v9(one_v9(10, 20), uptime=30) + v9(late, uptime=40)
    (tmp_path / "a.v9").write_bytes(content + v9(one_v9(10, 20), uptime=50, source=2))
    rows, done = read(tmp_path / "a.v9")
    assert len(rows) == 1
    assert done.notes.set_aside == {"set of records whose template never came": 1}


def test_an_exporter_that_restarts_has_a_new_start(tmp_path: Path) -> None:
    learn = a_set(0, template(FIELDS | V9_TIMES))
    content = v9(learn, one_v9(999_000, 999_500), uptime=1_000_000)
    content += v9(learn, one_v9(1_000, 1_500), uptime=2_000, seconds=NOW_S + 60)
    (tmp_path / "a.v9").write_bytes(content)
    rows, done = read(tmp_path / "a.v9")
    assert [row["start_ns"] for row in rows] == [(NOW_S - 1) * S, (NOW_S + 59) * S]
    assert any("restarted" in one for one in done.notes.remarks)


def test_sampling_comes_from_an_options_template(tmp_path: Path) -> None:
    options = struct.pack(">HHHHHHHHH", 300, 4, 8, 1, 4, 34, 4, 35, 1)
    option_data = struct.pack(">IIB", 1, 64, 2)
    sets = [a_set(1, options), a_set(300, option_data), a_set(0, template(FIELDS | V9_TIMES))]
    (tmp_path / "a.v9").write_bytes(v9(*sets, one_v9(10, 20), uptime=30))
    rows, done = read(tmp_path / "a.v9")
    assert (rows[0]["bytes"], rows[0]["sampling"], done.seen.sampling) == (96_000, 64, 64)


def test_fields_of_varying_length_and_of_vendors_are_passed_over(tmp_path: Path) -> None:
    fields = struct.pack(">HHHHI", 256, 2 + len(FIELDS | IPFIX_TIMES), 0x8001, 65535, 9)
    fields += struct.pack(">HH", 82, 65535)
    fields += template(FIELDS | IPFIX_TIMES)[4:]
    body = b"\x03abc" + b"\xff\x01\x00" + bytes(256)
    body += record(ROW, ntp(NOW_S * S + 7), ntp(NOW_S * S + 9))
    (tmp_path / "a.ipfix").write_bytes(ipfix(a_set(2, fields), a_set(256, body)))
    rows, _ = read(tmp_path / "a.ipfix")
    assert [(row["start_ns"] - NOW_S * S, row["bytes"]) for row in rows] == [(7, 1500)]


def test_captured_exports_name_their_points_and_join(tmp_path: Path) -> None:
    learn = a_set(2, template(FIELDS | IPFIX_TIMES))
    sent = [
        (NOW_S * S, f"192.0.2.{i}", ipfix(learn, a_set(256, record(ROW, ntp(t), ntp(t + 5 * MS)))))
        for i, t in ((1, NOW_S * S), (2, NOW_S * S + 1000))
    ]
    path = captured(tmp_path / "a.pcap", sent, 4739)
    rows, _ = read(path, points={"192.0.2.1": "l0", "192.0.2.2": "l1"})
    assert [row["path"] for row in rows] == ["l0|l1"]


def sflow(rate: int, header: bytes, length: int, uptime: int = 5000) -> bytes:
    raw = struct.pack(">IIII", 1, length, 4, len(header)) + header + bytes(-len(header) % 4)
    body = (
        struct.pack(">IIIIIIII", 1, 3, rate, 1, 0, 1, 2, 1) + struct.pack(">II", 1, len(raw)) + raw
    )
    counters = struct.pack(">II", 2, 4) + bytes(4)
    head = struct.pack(">II", 5, 1) + ip_address("192.0.2.7").packed
    head += struct.pack(">IIII", 0, 1, uptime, 2)
    return head + struct.pack(">II", 1, len(body)) + body + counters


def test_sflow_samples_stand_for_many_packets(tmp_path: Path) -> None:
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 4096 + 60, 0, 0, 64, 17, 0)
    ip += ip_address("10.0.0.1").packed + ip_address("10.0.0.2").packed
    header = bytes(12) + b"\x08\x00" + ip + struct.pack(">HHHH", 7, 4791, 4096 + 40, 0)
    header += struct.pack(">BBHII", 4, 0, 0xFFFF, 99, 0)
    sample = sflow(1000, header, 4170)
    path = captured(
        tmp_path / "s.pcap", [(NOW_S * S + i, "192.0.2.7", sample) for i in range(3)], 6343
    )
    rows, done = read(path)
    row = rows[0]
    assert (row["packets"], row["bytes"], row["sampling"]) == (3000, 3 * 4156 * 1000, 1000)
    assert (row["dst_qp"], row["start_ns"]) == (99, NOW_S * S)
    assert done.notes.set_aside == {"sFlow sample of counters, which shows no flow": 3}
    (tmp_path / "s.raw").write_bytes(sample * 2)
    rows, _ = read(tmp_path / "s.raw")
    assert rows[0]["start_ns"] == 5 * S


NFCAPD = bytes.fromhex("0ca5") + bytes(200)


def test_without_nfdump_a_message_explains_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nfcapd.202601010000").write_bytes(NFCAPD)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UserError, match="apt install nfdump"):
        read(tmp_path / "nfcapd.202601010000")


def test_nfcapd_files_are_read_through_nfdump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in prints the output of nfdump 1.7.1 for a datagram of three flows."""
    flow = """{{"type" : "FLOW", "sampled" : 1, "first" : "2023-11-14T22:13:10.12{0}",
    "last" : "2023-11-14T22:13:10.133", "in_packets" : 100, "in_bytes" : 150000, "proto" : 6,
    "src_port" : 100{0}, "dst_port" : 29500, "src4_addr" : "10.0.0.1", "dst4_addr" : "10.0.0.2",
    "ip4_router" : "127.0.0.1"}}"""
    text = "[\n" + ",\n".join(flow.format(i) for i in range(3)) + "\n]\n"
    (tmp_path / "output.json").write_text(text)
    sampler = "Sampler: Generic Sampler: algorithm: 1, packet interval: 1, packet space: 99"
    program = tmp_path / "nfdump"
    program.write_text(
        f"#!/bin/sh\nif [ $1 = -E ]; then echo '{sampler}'; else cat {tmp_path}/output.json; fi\n"
    )
    program.chmod(0o755)
    (tmp_path / "nfcapd.202601010000").write_bytes(NFCAPD)
    monkeypatch.setattr(shutil, "which", lambda _: str(program))
    rows, _ = read(tmp_path / "nfcapd.202601010000")
    assert [row["start_ns"] - 1_699_999_990 * S for row in rows] == [120 * MS, 121 * MS, 122 * MS]
    assert {(row["bytes"], row["sampling"], row["protocol"]) for row in rows} == {(150_000, 100, 6)}


@pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")
def test_a_file_that_nfdump_cannot_read_is_counted(tmp_path: Path) -> None:
    (tmp_path / "nfcapd.202601010000").write_bytes(NFCAPD)
    rows, done = read(tmp_path / "nfcapd.202601010000")
    assert rows == []
    assert subprocess.run(["nfdump", "-V"], capture_output=True, check=False).stdout
    assert done.notes.remarks


def test_a_cut_export_gives_its_readable_part(tmp_path: Path) -> None:
    """Two thirds of the compressed bytes hold more than half of the records."""
    packed = (EXPORTS / "training.ipfix.gz").read_bytes()
    (tmp_path / "cut.ipfix.gz").write_bytes(packed[: len(packed) * 2 // 3])
    rows, done = read(tmp_path / "cut.ipfix.gz")
    whole, _ = read(EXPORTS / "training.ipfix.gz")
    assert len(whole) / 2 < len(rows) < len(whole)
    assert any("read up to where it is damaged" in one for one in done.notes.remarks)

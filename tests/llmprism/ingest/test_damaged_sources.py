"""Flipped bytes and cut files: the result is records with counts of bad ones, or one error."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import Source
from prism_common.errors import UserError

QUICK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
IP = bytes.fromhex("450000780001000040110000 0a000001 0a000002")
UDP = struct.pack(">HHHH", 49152, 4791, 100, 0) + bytes([4, 0, 255, 255, 0, 0, 0, 9]) + bytes(8)
ETHERNET = bytes(12) + b"\x08\x00"
MIRROR = bytes.fromhex("450000900001000040 2f0000 c0000201 c0000209")
ERSPAN = MIRROR + bytes.fromhex("100088be00000001") + bytes(8) + ETHERNET + IP + UDP


def pcap() -> bytes:
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for i, raw in enumerate([ETHERNET + IP + UDP, ETHERNET + ERSPAN] * 4):
        out += struct.pack("<IIII", 1_700_000_000, i * 1000, len(raw), len(raw)) + raw
    return out


def pcapng() -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    raw = ETHERNET + IP + UDP
    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack("<HHIHHB3xHH", 1, 0, 0, 9, 1, 9, 0, 0))
    for millisecond in range(5):
        head = struct.pack("<IIIII", 0, 0, millisecond * 1_000_000, len(raw), len(raw))
        out += block(6, head + raw)
    return out


def netflow_v9() -> bytes:
    fields = ((8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (1, 4), (22, 4), (21, 4))
    learn = struct.pack(">HH", 256, 8) + b"".join(struct.pack(">HH", *one) for one in fields)
    row = IP[12:20] + struct.pack(">HHBIII", 1, 2, 6, 1500, 10, 20)
    sets = struct.pack(">HH", 0, len(learn) + 4) + learn
    sets += struct.pack(">HH", 256, 4 * len(row) + 4) + row * 4
    return (struct.pack(">HHIIII", 9, 5, 100, 1_700_000_000, 0, 1) + sets) * 3


def sflow() -> bytes:
    header = ETHERNET + IP + UDP
    raw = struct.pack(">IIII", 1, 140, 4, len(header)) + header + bytes(-len(header) % 4)
    body = (
        struct.pack(">IIIIIIII", 1, 3, 100, 1, 0, 1, 2, 1) + struct.pack(">II", 1, len(raw)) + raw
    )
    start = struct.pack(">II", 5, 1) + IP[12:16] + struct.pack(">IIII", 0, 1, 5000, 1)
    return (start + struct.pack(">II", 1, len(body)) + body) * 3


def csv() -> bytes:
    lines = "".join(
        f"10.0.0.1,10.0.0.2,{i},{i + 1},100,6\n" for i in range(1_700_000_000, 1_700_000_009)
    )
    return b"src,dst,start,end,bytes,proto\n" + lines.encode()


def goflow2() -> bytes:
    flow = {"time_flow_start_ns": 1, "time_flow_end_ns": 2, "bytes": 3, "src_addr": "10.0.0.1"}
    return (json.dumps({**flow, "dst_addr": "10.0.0.2", "sampling_rate": 2}) + "\n").encode() * 5


def zeek() -> bytes:
    names = ["ts", "duration", "proto", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"]
    names += ["orig_ip_bytes", "resp_ip_bytes"]
    row = ["1700000000.5", "1.5", "tcp", "10.0.0.1", "1", "10.0.0.2", "2", "999", "0"]
    head = "#separator \\x09\n#fields\t" + "\t".join(names) + "\n"
    return (head + ("\t".join(row) + "\n") * 5).encode()


SOURCES = {"pcap": pcap, "netflow": netflow_v9, "sflow": sflow, "csv": csv, "goflow2": goflow2}
SOURCES |= {"zeek": zeek}
FILES = [*SOURCES.items(), ("pcap", pcapng)]


@pytest.mark.parametrize("make", [make for _, make in FILES])
def test_a_good_source_has_records_and_none_set_aside(make: object, tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes(make())  # type: ignore[operator]
    done = ingest([Source(path)], tmp_path / "flows.parquet", Options())
    assert done.notes.records > 0
    assert set(done.notes.set_aside) <= {"record of a flow that another observation point counted"}


@pytest.mark.parametrize(("reader", "make"), FILES)
@QUICK
@given(
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8), end=st.floats(0, 1)
)
def test_a_damaged_source_is_read_or_refused(
    reader: str, make: object, cuts: list[tuple[float, int]], end: float, tmp_path: Path
) -> None:
    content = bytearray(make())  # type: ignore[operator]
    for place, value in cuts:
        content[int(place * (len(content) - 1))] = value
    path = tmp_path / "source"
    path.write_bytes(content[: len(content) if end > 0.5 else int(2 * end * len(content))])
    with suppress(UserError):
        done = ingest([Source(path)], tmp_path / "flows.parquet", Options(), reader)
        assert done.notes.records + done.notes.set_aside.total() + len(done.notes.remarks) > 0

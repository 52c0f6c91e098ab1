"""Whatever is read becomes a record or is counted: sums over inputs that hypothesis makes up."""

from __future__ import annotations

import gzip
import struct
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datagrams import FIELDS, NOW_S, V9_TIMES, a_set, template, v5, v9
from llmprism.ingest.exports import WAITED
from llmprism.ingest.ingesting import Ingested, ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import Source
from prism_common.errors import UserError

QUICK = settings(max_examples=25)
FIXTURES = Path(__file__).parents[2] / "fixtures"
S = 1_000_000_000


def read(content: bytes, folder: Path, reader: str | None = None) -> Ingested:
    path = folder / "source"
    path.write_bytes(content)
    return ingest([Source(path)], folder / "flows.parquet", Options(), reader)


def written(folder: Path, column: str) -> int:
    table = pq.read_table(folder / "flows.parquet")
    return sum(table[column].to_pylist()) if table.num_rows else 0


def frame(kind: str, cut: int) -> bytes:
    """An Ethernet frame: TCP over IPv4 or IPv6, or ARP; cut to some bytes if ``cut``."""
    tcp = struct.pack(">HHIIBBHHH", 1000, 2000, 0, 0, 0x50, 0, 0, 0, 0)
    four = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0)
    four += ip_address("10.0.0.1").packed + ip_address("10.0.0.2").packed
    six = struct.pack(">IHBB", 0x60000000, 20, 6, 64)
    six += ip_address("fd00::1").packed + ip_address("fd00::2").packed
    head, body = {"4": (0x0800, four + tcp), "6": (0x86DD, six + tcp), "arp": (0x0806, bytes(28))}[
        kind
    ]
    raw = bytes(12) + struct.pack(">H", head) + body
    return raw[:cut] if cut else raw


FRAMES = st.tuples(
    st.sampled_from(["4", "6", "arp"]),
    st.sampled_from([0, 0, 0, 10, 20, 36, 60]),
    st.integers(-3_000_000, 3_000_000),  # us to the next: a clock may jump back
)


@QUICK
@given(frames=st.lists(FRAMES, min_size=1, max_size=60), whole=st.booleans())
def test_every_packet_is_in_a_record_or_counted(
    frames: list[tuple[str, int, int]], whole: bool, tmp_path: Path
) -> None:
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    now = 1_700_000_000_000_000
    for kind, cut, step in frames:
        raw = frame(kind, cut)
        out += struct.pack("<IIII", *divmod(now, 1_000_000), len(raw), 74) + raw
        now += step
    damage = 0 if whole or not frames else 1  # of the last packet
    done = read(out[: len(out) - damage], tmp_path)
    assert written(tmp_path, "packets") + done.notes.set_aside.total() == len(frames)


EVENTS = st.lists(st.sampled_from(["data", "template", "restart", "wrap"]), max_size=25)


@QUICK
@given(events=EVENTS)
def test_every_exported_record_is_written_or_counted(events: list[str], tmp_path: Path) -> None:
    """Late templates, restarts and an uptime that wraps; one record a datagram."""
    learn = a_set(0, template(FIELDS | V9_TIMES))
    out, uptime, seconds = v9(a_set(0, b""), uptime=0, seconds=NOW_S - 1), 2**32 - 500_000, NOW_S
    for i, event in enumerate(events):
        if event == "restart":
            uptime = 1_000
        elif event == "wrap":
            uptime = (uptime + 400_000) % 2**32
            seconds += 400
        body = learn if event == "template" else b""
        if event == "data":
            ends = ip_address("10.0.0.1").packed + ip_address("10.0.0.2").packed
            row = ends + struct.pack(">HHBQQII", 1, 2, 6, 100 + i, 1, uptime, uptime)
            body = a_set(256, row)
        if body:
            out += v9(body, uptime=uptime, seconds=seconds)
    done = read(out, tmp_path, "netflow")
    assert done.notes.records + done.notes.set_aside.total() == events.count("data")
    if "template" in events:
        assert WAITED not in done.notes.set_aside
        first, last = (f(pq.read_table(tmp_path / "flows.parquet")["start_ns"].to_pylist() or [0])
                       for f in (min, max))  # fmt: skip
        assert last - first <= (seconds - NOW_S + 2) * S  # a wrap is no jump of 49 days


@QUICK
@given(counts=st.lists(st.integers(1, 30), min_size=1, max_size=5), cut=st.integers(0, 47))
def test_every_record_of_v5_is_written_and_a_cut_one_counted(
    counts: list[int], cut: int, tmp_path: Path
) -> None:
    flows = [("10.0.0.1", "10.0.0.2", 1, 100, 10, 20, 5, port, 6) for port in range(sum(counts))]
    parts = [flows[sum(counts[:i]) :][:count] for i, count in enumerate(counts)]
    content = b"".join(v5(part, uptime=1_000) for part in parts)
    done = read(content[: len(content) - cut], tmp_path, "netflow")
    whole = sum(counts) if not cut else sum(counts[:-1])  # a cut datagram has no end
    assert done.notes.records == whole
    assert bool(done.notes.set_aside) == bool(cut)


LINES = {
    "csv": ("src,dst,start,end,bytes\n", "10.0.0.1,10.0.0.2,1700000000,1700000001,5"),
    "goflow2": (
        "",
        '{"time_flow_start_ns":1,"time_flow_end_ns":2,"bytes":3,"src_addr":"a","dst_addr":"b",'
        '"sampling_rate":1}',
    ),
    "akvorado": ("", '{"TimeReceived":1700000000,"SrcAddr":"a","DstAddr":"b","Bytes":3}'),
    "nfdump_csv": (
        "ts,te,td,sa,da,sp,dp,pr,ipkt,ibyt\n",
        "2026-01-01 00:00:00,2026-01-01 00:00:00,0.01,10.0.0.1,10.0.0.2,1,2,TCP,3,400",
    ),
    "zeek": (
        "#separator \\x09\n#fields\tts\tduration\tproto\tid.orig_h\tid.orig_p\tid.resp_h\t"
        "id.resp_p\torig_ip_bytes\tresp_ip_bytes\n",
        "1700000000.5\t1.5\ttcp\t10.0.0.1\t1\t10.0.0.2\t2\t999\t0",
    ),
}
TEXT = st.text(st.characters(codec="utf-8", exclude_characters='\n\r"', exclude_categories=["Cs"]))


@pytest.mark.parametrize("reader", LINES)
@QUICK
@given(changes=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), TEXT), max_size=12))
def test_every_line_is_a_record_or_counted(
    reader: str, changes: list[tuple[int, int, str]], tmp_path: Path
) -> None:
    head, line = LINES[reader]
    separator = "\t" if reader == "zeek" else ","
    lines = [line] * 41
    for place, column, text in changes:
        if place:  # the first line shows the format
            parts = lines[place].split(separator)
            parts[column] = text
            lines[place] = separator.join(parts)
    content = (head + "\n".join(lines) + "\n").encode()
    done = read(content, tmp_path, reader)
    blank = sum(not one.strip() or (reader == "zeek" and one[0] == "#") for one in lines)
    counted = done.notes.records + done.notes.set_aside.total()
    both = reader == "zeek"  # a line with an unknown size has two directions
    assert len(lines) - blank <= counted <= (1 + both) * len(lines)


ETHERNET = bytes(12) + b"\x08\x00"
ROCE = bytes.fromhex("450000780001000040110000 0a000001 0a000002 c00012b700640000 0400ffff00000009")
MIRROR = bytes.fromhex("450000900001000040 2f0000 c0000201 c0000209 100088be00000001")
MIRRORED = ETHERNET + MIRROR + bytes(8) + ETHERNET + ROCE + bytes(8)


def mirrored() -> bytes:
    """A capture of RoCE v2 and of a switch's mirror of it (ERSPAN)."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for i, raw in enumerate([ETHERNET + ROCE + bytes(8), MIRRORED] * 4):
        out += struct.pack("<IIII", 1_700_000_000, i * 1000, len(raw), len(raw)) + raw
    return out


def content_of(name: str) -> bytes:
    """What a tool wrote, or what a mirror sends."""
    raw = (FIXTURES / name).read_bytes() if name != "mirrored" else mirrored()
    return (gzip.decompress(raw) if name.endswith(".gz") else raw)[:60_000]


REAL = {
    "mirrored": "pcap",
    "cases/fuzz/7418523b-in.pcapng": "pcap",
    "tools/tcpdump.pcap": "pcap",
    "tools/tcpdump-any.pcap": "pcap",
    "tools/softflowd.pcap": "netflow",
    "tools/pmacct-sflow.pcap.gz": "sflow",
    "tools/nfdump.csv": "nfdump_csv",
    "exports/training.ipfix.gz": "netflow",
}


def test_a_mirrored_capture_has_a_record_of_each_queue_pair(tmp_path: Path) -> None:
    assert read(mirrored(), tmp_path).notes.records > 0


@pytest.mark.parametrize("name", REAL)
@QUICK
@given(
    flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), max_size=20),
    end=st.floats(0.01, 1.0),
)
def test_flipped_bytes_in_what_real_tools_wrote_give_records_or_counts(
    name: str, flips: list[tuple[float, int]], end: float, tmp_path: Path
) -> None:
    content = bytearray(content_of(name))
    for place, change in flips:
        content[int(place * (len(content) - 1))] ^= change
    with suppress(UserError):
        done = read(bytes(content[: int(end * len(content))]), tmp_path, REAL[name])
        assert done.notes.records + done.notes.set_aside.total() + len(done.notes.remarks) > 0


@QUICK
@given(flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=6))
def test_a_damaged_gzip_is_read_up_to_the_damage(
    flips: list[tuple[float, int]], tmp_path: Path
) -> None:
    raw = gzip.decompress((FIXTURES / "exports/training.ipfix.gz").read_bytes())[:20_000]
    whole = read(raw, tmp_path, "netflow").notes
    content = bytearray(gzip.compress(raw, mtime=0))
    for place, change in flips:
        content[int(place * (len(content) - 1))] ^= change
    with suppress(UserError):
        done = read(bytes(content), tmp_path, "netflow").notes
        assert done.records == whole.records or done.set_aside or done.remarks

"""Packets made by scapy become the records that an exporter would have cut."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.layers.inet import GRE, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import PcapNgWriter

from ingested import read

T0 = 1_700_000_000
MAC = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
ENDS = {"src": "10.0.0.1", "dst": "10.0.0.2"}


def tcp(size: int = 100, **ip: Any) -> Any:
    return IP(**ENDS, **ip) / TCP(sport=1000, dport=2000) / Raw(b"x" * size)


def roce(queue_pair: int, size: int = 64, number: int = 0) -> Any:
    header = struct.pack(">BBHII", 4, 0, 0xFFFF, queue_pair, number)
    return IP(**ENDS) / UDP(sport=49152, dport=4791) / Raw(header + b"y" * size + b"ICRC")


def saved(path: Path, packets: list[tuple[float, Any]], nano: bool = False, cut: int = 0) -> Path:
    """Write packets at times in ns after T0; ``cut``: bytes kept of each."""
    magic, unit = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    content = struct.pack("<IHHiIII", magic, 2, 4, 0, 0, cut or 65535, 1)
    for time_ns, packet in packets:
        raw = bytes(packet)
        kept = raw[: cut or None]
        seconds, rest = divmod(int(time_ns), 10**9)
        content += struct.pack("<IIII", T0 + seconds, rest // unit, len(kept), len(raw)) + kept
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("nano", [False, True])
def test_a_silence_longer_than_the_idle_gap_ends_a_record(nano: bool, tmp_path: Path) -> None:
    times = [0, 1_000_000, 5_999_000, 11_000_000, 11_001_001]
    packets = [(t, Ether(**MAC) / Dot1Q(vlan=7) / tcp(id=n)) for n, t in enumerate(times, 1)]
    rows, _ = read(saved(tmp_path / "a.pcap", packets, nano))
    start = T0 * 10**9
    last = 11_001_001 if nano else 11_001_000
    cuts = [(row["start_ns"] - start, row["end_ns"] - start, row["packets"]) for row in rows]
    assert cuts == [(0, 5_999_000, 3), (11_000_000, last, 2)]
    assert [(row["bytes"], row["payload"]) for row in rows] == [(420, 300), (280, 200)]


def test_a_packet_that_was_captured_twice_counts_once(tmp_path: Path) -> None:
    """By a mirror of both directions, of which the second lies behind a router."""
    packets = []
    for number in range(5):
        at_ns, packet = number * 10**6, {"id": 7 + number, "ttl": 64}
        packets += [(at_ns, Ether(**MAC) / tcp(**packet))]
        packets += [(at_ns + 2000, Ether(**MAC) / tcp(**packet | {"ttl": 63}))]
        packets += [(at_ns + 400_000, Ether(**MAC) / tcp(**packet))]  # a retransmission
    rows, done = read(saved(tmp_path / "a.pcap", packets))
    assert [row["packets"] for row in rows] == [10]
    assert done.notes.set_aside == {"packet that was captured twice": 5}
    assert any("captured twice within microseconds" in one for one in done.notes.remarks)


def test_the_active_timeout_ends_a_record(tmp_path: Path) -> None:
    packets = [(t * 1_000_000, Ether(**MAC) / tcp()) for t in range(100)]
    rows, _ = read(saved(tmp_path / "a.pcap", packets), active_timeout_ns=29_500_000)
    assert [row["packets"] for row in rows] == [30, 30, 30, 10]


def test_queue_pairs_of_roce_are_flows_of_their_own(tmp_path: Path) -> None:
    packets = [(i * 1000, Ether(**MAC) / roce(0x123456 + i % 2, number=i)) for i in range(6)]
    rows, _ = read(saved(tmp_path / "a.pcap", packets))
    assert [(row["dst_qp"], row["packets"], row["payload"]) for row in rows] == [
        (0x123456, 3, 192),
        (0x123457, 3, 192),
    ]


def test_mirrored_headers_stand_for_the_inner_packet(tmp_path: Path) -> None:
    inner = Ether(**MAC) / Dot1Q(vlan=3) / roce(5)
    second = GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II(session_id=9) / inner
    third = GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III(session_id=9) / inner
    packets = [
        (0, Ether(**MAC) / IP(src="192.0.2.1", dst="192.0.2.9") / second),
        (50_000, Ether(**MAC) / IP(src="192.0.2.2", dst="192.0.2.9") / third),
    ]
    path = saved(tmp_path / "a.pcap", packets)
    rows, _ = read(path, points={"192.0.2.1": "leaf0", "192.0.2.2": "spine0"})
    assert [(r["src"], r["dst"], r["dst_qp"], r["path"]) for r in rows] == [
        ("10.0.0.1", "10.0.0.2", 5, "leaf0|spine0")
    ]


def test_truncated_packets_keep_their_sizes(tmp_path: Path) -> None:
    packets = [(0, Ether(**MAC) / tcp(1400)), (10, Ether(**MAC) / roce(6, 4096))]
    rows, _ = read(saved(tmp_path / "a.pcap", packets, cut=14 + 20 + 20))
    assert {(row["bytes"], row["payload"]) for row in rows} == {(1440, 1400), (4140, 4096)}
    rows, done = read(saved(tmp_path / "b.pcap", packets, cut=30))
    assert rows == []
    assert done.notes.set_aside == {"packet cut before the end of its addresses": 2}


def test_address_families_mix_and_the_rest_is_counted(tmp_path: Path) -> None:
    six = IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=1, dport=2) / Raw(b"z" * 10)
    packets = [(0, Ether(**MAC) / six), (1000, Ether(**MAC) / tcp()), (2000, Ether(**MAC) / ARP())]
    rows, done = read(saved(tmp_path / "a.pcap", packets))
    assert [(row["src"], row["bytes"]) for row in rows] == [("fd00::1", 70), ("10.0.0.1", 140)]
    assert done.notes.set_aside == {"packet that is no IP: Ethernet type 0x0806 (ARP)": 1}


def test_pcapng_is_read_as_well(tmp_path: Path) -> None:
    with PcapNgWriter(str(tmp_path / "a.pcapng")) as out:
        for i in range(3):
            packet = Ether(**MAC) / tcp()
            packet.time = T0 + i / 1000
            out.write(packet)
    rows, _ = read(tmp_path / "a.pcapng")
    assert [(row["packets"], row["end_ns"] - row["start_ns"]) for row in rows] == [(3, 2_000_000)]


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def test_pcapng_times_are_exact_to_the_nanosecond_on_each_interface(tmp_path: Path) -> None:
    """By the layout of the draft RFC: one interface in ns, one in 1/2^20 s with an offset."""
    raw = bytes(Ether(**MAC) / tcp())
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    fine = block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0))
    options = struct.pack("<HHB3xHHqHH", 9, 1, 0x80 | 20, 14, 8, 100, 0, 0)
    coarse = block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HH4s", 2, 4, b"eth1") + options)
    content = section + fine + coarse
    for interface, ticks in ((0, T0 * 10**9 + 123_456_789), (1, 3 << 20)):
        head = (interface, ticks >> 32, ticks & 0xFFFFFFFF, len(raw), len(raw))
        content += block(6, struct.pack("<IIIII", *head) + raw)
    (tmp_path / "a.pcapng").write_bytes(content)
    rows, _ = read(tmp_path / "a.pcapng")
    assert [row["start_ns"] for row in rows] == [103 * 10**9, T0 * 10**9 + 123_456_789]


def test_a_cut_file_gives_its_readable_part(tmp_path: Path) -> None:
    packets = [(i * 10_000_000, Ether(**MAC) / tcp()) for i in range(10)]
    path = saved(tmp_path / "a.pcap", packets)
    path.write_bytes(path.read_bytes()[:-50])
    rows, done = read(path)
    assert len(rows) == 9
    assert done.notes.set_aside == {"capture file not read to its end": 1}


def test_a_clock_that_jumps_back_begins_new_records(tmp_path: Path) -> None:
    times = [100_000_000, 101_000_000, 20_000_000, 21_000_000]
    rows, done = read(saved(tmp_path / "a.pcap", [(t, Ether(**MAC) / tcp()) for t in times]))
    assert [row["packets"] for row in rows] == [2, 2]
    assert any("clock jumps back" in one for one in done.notes.remarks)


def test_sampled_captures_are_scaled(tmp_path: Path) -> None:
    rows, _ = read(saved(tmp_path / "a.pcap", [(0, Ether(**MAC) / tcp())]), sampling=100)
    assert [(r["packets"], r["bytes"], r["sampling"]) for r in rows] == [(100, 14_000, 100)]

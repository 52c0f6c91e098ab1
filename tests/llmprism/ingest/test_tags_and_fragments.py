"""Which packet is meant: tags before IP, fragments, and datagrams of exporters among others."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from datagrams import NOW_S, S, captured, v5
from ingested import read

MACS = bytes.fromhex("020000000002 020000000001")
MIRROR, COLLECTOR = "192.0.2.250", "192.0.2.251"


def ipv4(src: str, dst: str, protocol: int, body: bytes, ident: int = 1, piece: int = 0) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), ident, piece, 64, protocol, 0)
    return head + ip_address(src).packed + ip_address(dst).packed + body


def udp(source: int, target: int, body: bytes) -> bytes:
    return struct.pack(">HHHH", source, target, 8 + len(body), 0) + body


def in_pieces(src: str, dst: str, protocol: int, body: bytes, size: int = 800) -> list[bytes]:
    """An IP packet in fragments; ``size`` is a multiple of 8."""
    starts = range(0, len(body), size)
    return [
        ipv4(src, dst, protocol, body[at : at + size], 7,
             (0x2000 if at + size < len(body) else 0) | at // 8)
        for at in starts
    ]  # fmt: skip


ROCE = udp(49152, 4791, struct.pack(">BBHII", 4, 0, 0xFFFF, 17, 1) + bytes(1028))
INNER = ipv4("10.0.0.1", "10.0.0.2", 17, ROCE)
FRAME = MACS + b"\x08\x00" + INNER
LABELS = struct.pack(">II", 100 << 12 | 64, 200 << 12 | 1 << 8 | 64)

TAGS = {
    "MPLS": b"\x88\x47" + LABELS + INNER,
    "MPLS with a frame": b"\x88\x47" + LABELS + FRAME,
    "MPLS with a control word": b"\x88\x47" + LABELS + bytes(4) + FRAME,
    "MPLS behind two VLANs": b"\x88\xa8\0\7\x81\0\0\7\x88\x47" + LABELS + INNER,
    "PPPoE": b"\x88\x64\x11\0\0\1\4\0\0\x21" + INNER,
    "VN-Tag": b"\x89\x26\0\0\0\0\x08\0" + INNER,
    "802.1ah": b"\x88\xe7\0\0\0\1" + FRAME,
    "802.1BR": b"\x89\x3f\0\0\0\0\0\0\x08\0" + INNER,
    "802.1CB": b"\xf1\xc1\0\0\0\1\x08\0" + INNER,
    "Arista, 64 bits": b"\xd2\x8b\0\1\0\x10" + bytes(8) + b"\x08\0" + INNER,
    "Arista, 48 bits": b"\xd2\x8b\0\1\1\x20" + bytes(6) + b"\x08\0" + INNER,
    "Cisco metadata": b"\x89\x09\1\1\0\1\0\x10\x08\0" + INNER,
    "FabricPath": b"\x89\x03\0\x20" + FRAME,
    "TRILL": b"\x22\xf3\0\x05\0\1\0\2" + FRAME,
    "NSH": b"\x89\x4f\x0f\xc6\1\1\0\0\1\xff" + bytes(16) + INNER,
    "SNAP": struct.pack(">H", 8 + len(INNER)) + b"\xaa\xaa\3\0\0\0\x08\0" + INNER,
}


def pcap(path: Path, packets: Sequence[bytes], link_type: int = 1) -> Path:
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, link_type)
    for i, raw in enumerate(packets):
        out += struct.pack("<IIII", NOW_S, 100 * i, len(raw), len(raw)) + raw
    path.write_bytes(out)
    return path


def values(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("src", "dst", "dst_qp", "bytes", "packets")
    return sorted(tuple(row.get(name) for name in names) for row in rows)


ONE = [("10.0.0.1", "10.0.0.2", 17, len(INNER), 1)]


@pytest.mark.parametrize("tag", TAGS)
def test_tags_before_ip_are_walked(tag: str, tmp_path: Path) -> None:
    rows, done = read(pcap(tmp_path / "a.pcap", [MACS + TAGS[tag]]))
    assert values(rows) == ONE
    assert not done.notes.set_aside


GRH = struct.pack(">IHBB", 6 << 28, 1044, 27, 64)
GRH += b"".join(ip_address(f"::ffff:10.0.0.{i}").packed for i in (1, 2)) + ROCE[8:]
LINKS = {
    "Linux cooked with a VLAN": (113, bytes(14) + b"\x81\0\0\7\x08\0" + INNER),
    "PPP": (9, b"\xff\x03\0\x21" + INNER),
    "Cisco HDLC": (104, b"\x0f\0\x08\0" + INNER),
    "IP over InfiniBand": (242, bytes(40) + b"\x08\0\0\0" + INNER),
    "MPLS": (219, LABELS + INNER),
    "InfiniBand": (247, b"\0\3" + bytes(6) + GRH),
}


@pytest.mark.parametrize("link", LINKS)
def test_links_other_than_ethernet_are_read(link: str, tmp_path: Path) -> None:
    number, raw = LINKS[link]
    rows, _ = read(pcap(tmp_path / "a.pcap", [raw], number))
    size = 1084 if link == "InfiniBand" else len(INNER)
    assert values(rows) == [("10.0.0.1", "10.0.0.2", 17, size, 1)]


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    kinds = [
        b"\x08\x06",
        b"\x88\xcc",
        b"\x12\x34",
        b"\0\x26\x42\x42\3",
        b"\x88\x64\0\0\0\0\0\0\xc0\x21",
    ]
    _, done = read(pcap(tmp_path / "a.pcap", [MACS + kind + bytes(40) for kind in kinds]))
    assert done.notes.set_aside == {
        "packet that is no IP: Ethernet type 0x0806 (ARP)": 1,
        "packet that is no IP: Ethernet type 0x88cc (LLDP)": 1,
        "packet that is no IP: Ethernet type 0x1234": 1,
        "packet that is no IP: 802.3 with LLC (spanning tree and others)": 1,
        "packet that is no IP: PPP type 0xc021": 1,
    }
    _, done = read(pcap(tmp_path / "a.pcap", [bytes(60)], 195))
    assert done.notes.set_aside == {"packet on a link of type 195, which is not read": 1}


def test_the_fragments_of_a_mirrored_packet_are_one_packet(tmp_path: Path) -> None:
    gre = bytes.fromhex("100088be00000001") + bytes(8) + FRAME
    pieces = [MACS + b"\x08\0" + one for one in in_pieces(MIRROR, COLLECTOR, 47, gre)]
    rows, done = read(pcap(tmp_path / "a.pcap", pieces))
    assert values(rows) == ONE
    assert sum(done.notes.set_aside.values()) == len(pieces) - 1
    assert all("later fragment of a mirrored packet" in one for one in done.notes.set_aside)


def test_the_fragments_of_a_packet_count_for_its_flow(tmp_path: Path) -> None:
    pieces = [MACS + b"\x08\0" + one for one in in_pieces("10.0.0.1", "10.0.0.2", 17, ROCE)]
    rows, _ = read(pcap(tmp_path / "a.pcap", pieces))
    assert [(row["src_port"], row["dst_qp"], row["bytes"], row["payload"]) for row in rows] == [
        (49152, 17, len(ROCE) + 20 * len(pieces), 1024)
    ]


FLOWS = [("10.0.0.1", "10.0.0.2", 10, 10_000 + i, 10, 20, 1000 + i, 2000, 6) for i in range(29)]
EXPORT = udp(40000, 9991, v5(FLOWS, uptime=1_000))


@pytest.mark.parametrize("turn", [1, -1])
def test_an_export_datagram_in_fragments_is_put_together(turn: int, tmp_path: Path) -> None:
    pieces = [MACS + b"\x08\0" + one for one in in_pieces(MIRROR, COLLECTOR, 17, EXPORT)]
    assert len(pieces) == 2
    rows, done = read(pcap(tmp_path / "a.pcap", pieces[::turn]))
    assert sorted(row["bytes"] for row in rows) == [10_000 + i for i in range(29)]
    assert not done.notes.set_aside
    _, done = read(pcap(tmp_path / "a.pcap", pieces[:1]), reader="netflow")
    assert done.notes.set_aside == {"export datagram of which fragments are missing": 1}


def test_datagrams_are_found_behind_other_packets(tmp_path: Path) -> None:
    others = [MACS + b"\x08\x06" + bytes(28), FRAME, FRAME, MACS + b"\x88\xcc" + bytes(40)]
    export = MACS + b"\x08\0" + ipv4(MIRROR, COLLECTOR, 17, EXPORT)
    rows, done = read(pcap(tmp_path / "a.pcap", [*others, export]))
    assert len(rows) == 29
    assert done.notes.set_aside == {"packet that carries no export datagram": 4}


def test_a_datagram_in_a_network_s_traffic_is_traffic(tmp_path: Path) -> None:
    export = MACS + b"\x08\0" + ipv4(MIRROR, COLLECTOR, 17, EXPORT)
    rows, done = read(pcap(tmp_path / "a.pcap", [*[FRAME] * 19, export]))
    assert {row["src"]: row["packets"] for row in rows} == {"10.0.0.1": 19, MIRROR: 1}
    assert any("--format netflow" in one for one in done.notes.remarks)


def test_mpls_in_a_sample_of_sflow_is_walked(tmp_path: Path) -> None:
    header = MACS + TAGS["MPLS"][:120]
    raw = struct.pack(">IIII", 1, 14 + 8 + len(INNER), 0, len(header))
    raw += header + bytes(-len(header) % 4)
    body = struct.pack(">8I", 1, 3, 100, 1, 0, 1, 2, 1) + struct.pack(">II", 1, len(raw)) + raw
    datagram = struct.pack(">II", 5, 1) + ip_address(MIRROR).packed
    datagram += struct.pack(">IIII", 0, 1, 5000, 1) + struct.pack(">II", 1, len(body)) + body
    rows, _ = read(captured(tmp_path / "a.pcap", [(NOW_S * S, MIRROR, datagram)], 9999))
    assert values(rows) == [("10.0.0.1", "10.0.0.2", 17, 100 * len(INNER), 100)]

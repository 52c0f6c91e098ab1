"""Export datagrams, written by the layout of their RFCs."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from pathlib import Path
from typing import Any

S = 1_000_000_000
NOW_S = 1_700_000_000
FIELDS = {8: 4, 12: 4, 7: 2, 11: 2, 4: 1, 1: 8, 2: 8}  # number: length
V9_TIMES = {22: 4, 21: 4}
IPFIX_TIMES = {156: 8, 157: 8}


def v5(flows: list[tuple[Any, ...]], uptime: int, sampling: int = 0, nanos: int = 0) -> bytes:
    """Flows: (src, dst, packets, bytes, first, last, src_port, dst_port, protocol)."""
    out = struct.pack(">HHIIIIBBH", 5, len(flows), uptime, NOW_S, nanos, 0, 0, 0, sampling)
    for src, dst, packets, size, first, last, sport, dport, proto in flows:
        out += ip_address(src).packed + ip_address(dst).packed + bytes(8)
        out += struct.pack(">IIIIHHBBB9x", packets, size, first, last, sport, dport, 0, 0, proto)
    return out


def v9(
    *sets: bytes, uptime: int, seconds: int = NOW_S, source: int = 1, sequence: int = 0
) -> bytes:
    head = struct.pack(">HHIIII", 9, len(sets), uptime, seconds, sequence, source)
    return head + b"".join(sets)


def ipfix(*sets: bytes, domain: int = 1) -> bytes:
    body = b"".join(sets)
    return struct.pack(">HHIII", 10, 16 + len(body), NOW_S, 0, domain) + body


def a_set(number: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(">HH", number, len(body) + 4) + body


def template(fields: dict[int, int], number: int = 256) -> bytes:
    return struct.pack(">HH", number, len(fields)) + b"".join(
        struct.pack(">HH", *one) for one in fields.items()
    )


def record(row: Any, first: bytes, last: bytes) -> bytes:
    ends = ip_address(row.src).packed + ip_address(row.dst).packed
    ports = struct.pack(">HHB", row.src_port, row.dst_port, row.protocol)
    return ends + ports + struct.pack(">QQ", row.bytes, row.packets) + first + last


def captured(path: Path, datagrams: list[tuple[int, str, bytes]], port: int) -> Path:
    """Save datagrams, (arrival [ns], exporter, content), as a capture of the collector's port."""
    out = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)
    for time_ns, exporter, content in datagrams:
        udp = struct.pack(">HHHH", 50000, port, len(content) + 8, 0) + content
        ip = struct.pack(">BBHHHBBH", 0x45, 0, len(udp) + 20, 0, 0, 64, 17, 0)
        raw = ip + ip_address(exporter).packed + ip_address("192.0.2.99").packed + udp
        out += struct.pack("<IIII", *divmod(time_ns, S), len(raw), len(raw)) + raw
    path.write_bytes(out)
    return path


def ntp(time_ns: int) -> bytes:
    """A time as IPFIX has it in ns: seconds since 1900 and a binary fraction."""
    seconds, rest = divmod(time_ns, S)
    return struct.pack(">II", seconds + 2_208_988_800, -(-(rest << 32) // S))

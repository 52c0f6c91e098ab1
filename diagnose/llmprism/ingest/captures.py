"""Capture files: packets with times exact to the nanosecond, from pcap and pcapng.

A capture is walked block by block; memory holds one packet. What is damaged or cut short ends
the walk with a remark, and what was read until then stands. Formats: the draft RFCs
"PCAP Capture File Format" and "PCAP Now Generic (pcapng)".

The readers of dpkt and scapy keep times as floats or keep neither the length on the wire nor
the interface, all of which are needed here.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, NamedTuple

from llmprism.ingest.sources import BROKEN, Source
from llmprism.io.notes import Notes

CUT = "capture file not read to its end"
NO_TIME = "packet without a time (simple packet block)"

_PCAP = {
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE, _PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_LARGEST = 1 << 20  # bytes of a packet or block; more is damage


class Frame(NamedTuple):
    """One captured packet: time [ns], link type, content, length on the wire, interface."""

    time_ns: int
    link_type: int
    content: bytes
    length: int
    interface: str


@dataclass(frozen=True)
class _Interface:
    name: str
    link_type: int
    ticks_per_s: int
    offset_s: int


class _DamagedError(Exception):
    """The file cannot be what it claims to be, from here on."""


def is_capture(head: bytes) -> bool:
    """Return whether a file that starts so is a capture."""
    return head[:4] in _PCAP or head[:4] == _PCAPNG


def frames(source: Source, notes: Notes) -> Iterator[Frame]:
    """Yield the packets of a capture file, in the order of the file."""
    with source.open() as stream:
        try:
            yield from _frames(stream, notes)
        except (_DamagedError, struct.error, *BROKEN) as error:
            notes.drop(CUT)
            notes.remark(f"{source}: read up to where it is cut or damaged ({error})")


def frames_of(head: bytes) -> Iterator[Frame]:
    """Yield the packets that the first bytes of a capture file hold whole."""
    with suppress(_DamagedError, struct.error):
        yield from _frames(io.BytesIO(head), Notes())


def _frames(stream: IO[bytes], notes: Notes) -> Iterator[Frame]:
    magic = stream.read(4)
    if magic in _PCAP:
        yield from _pcap(stream, *_PCAP[magic])
    elif magic == _PCAPNG:
        yield from _pcapng(stream, notes)
    else:
        raise _DamagedError("it is no capture file")


def _exactly(stream: IO[bytes], count: int, what: str) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise _DamagedError(f"it ends inside {what}")
    return content


def _pcap(stream: IO[bytes], order: str, unit_ns: int) -> Iterator[Frame]:
    rest = _exactly(stream, 20, "its header")
    link_type = struct.unpack(order + "HHiIII", rest)[5] & 0xFFFF
    record = struct.Struct(order + "IIII")
    while head := stream.read(16):
        if len(head) < 16:
            raise _DamagedError("it ends inside a packet's header")
        seconds, fraction, captured, length = record.unpack(head)
        if captured > _LARGEST:
            raise _DamagedError(f"a packet of {captured:,} bytes")
        content = _exactly(stream, captured, "a packet")
        time_ns = seconds * 1_000_000_000 + fraction * unit_ns
        yield Frame(time_ns, link_type, content, length, "")


def _pcapng(stream: IO[bytes], notes: Notes) -> Iterator[Frame]:
    order = "<"
    interfaces: list[_Interface] = []
    head = _PCAPNG + _exactly(stream, 4, "a block's header")
    while head:
        if head[:4] == _PCAPNG:
            mark = _exactly(stream, 4, "a section's header")
            order = "<" if mark == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
            _block(stream, order, head, 12)
        else:
            kind = struct.unpack(order + "I", head[:4])[0]
            body = _block(stream, order, head, 8)
            if kind == _INTERFACE:
                interfaces.append(_interface(body, order))
            elif kind in (_PACKET, _OLD_PACKET):
                yield _packet(body, order, interfaces, kind)
            elif kind == _SIMPLE:
                notes.drop(NO_TIME)
        head = stream.read(8)
        if 0 < len(head) < 8:
            raise _DamagedError("it ends inside a block's header")


def _block(stream: IO[bytes], order: str, head: bytes, read: int) -> bytes:
    """Return the body of a block of which ``read`` bytes were read."""
    total = struct.unpack(order + "I", head[4:8])[0]
    if total % 4 or not read + 4 <= total <= _LARGEST:
        raise _DamagedError(f"a block of {total:,} bytes")
    return _exactly(stream, total - read, "a block")[:-4]


def _interface(body: bytes, order: str) -> _Interface:
    link_type, _, _ = struct.unpack_from(order + "HHI", body)
    options = dict(_options(body[8:], order))
    resolution = options.get(9, b"\x06")[:1] or b"\x06"
    power = resolution[0] & 0x7F
    ticks = 2 ** min(power, 63) if resolution[0] & 0x80 else 10 ** min(power, 18)
    offset = struct.unpack(order + "q", options[14])[0] if len(options.get(14, b"")) == 8 else 0
    name = options.get(2, b"").rstrip(b"\0").decode("utf-8", errors="replace")
    return _Interface(name, link_type, ticks, offset)


def _options(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 4 <= len(content):
        code, length = struct.unpack_from(order + "HH", content, place)
        if code == 0:
            return
        yield code, content[place + 4 : place + 4 + length]
        place += 4 + (length + 3) // 4 * 4


def _packet(body: bytes, order: str, interfaces: list[_Interface], kind: int) -> Frame:
    if kind == _PACKET:
        number, high, low, captured, length = struct.unpack_from(order + "IIIII", body)
    else:
        number, _, high, low, captured, length = struct.unpack_from(order + "HHIIII", body)
    if number >= len(interfaces):
        raise _DamagedError(f"a packet of interface {number}, which is not described")
    on = interfaces[number]
    ticks = (high << 32) | low
    time_ns = on.offset_s * 1_000_000_000 + ticks * 1_000_000_000 // on.ticks_per_s
    name = on.name if len(interfaces) > 1 else ""
    if len(body) < 20 + captured:
        raise _DamagedError("a packet longer than its block")
    return Frame(time_ns, on.link_type, body[20 : 20 + captured], length, name)

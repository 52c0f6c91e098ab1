"""Export datagrams: NetFlow, IPFIX and sFlow as exporters send them, out of a file.

They come in two forms. A capture of the collector's port has them as UDP packets, with the time
of arrival and the exporter's address. A file of raw datagrams has them one after another, as
``nc -ul`` or an IPFIX file (RFC 5655) stores them; the content shows where one ends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from llmprism.ingest.captures import Frame, frames, frames_of, is_capture
from llmprism.ingest.links import network
from llmprism.ingest.packets import UDP, Assembly, read_ip
from llmprism.ingest.sources import BROKEN, Source
from llmprism.io.notes import Notes

OTHER_PACKET = "packet that carries no export datagram"
INCOMPLETE = "export datagram of which fragments are missing"

_LARGEST = 65_535  # bytes of a datagram
_FEWEST_SHARE = 0.1  # of the first packets, in a capture of what goes to a collector
_PIECE_BYTES = 1 << 14  # read at once: the last piece of a damaged file is lost


class Protocol(NamedTuple):
    """What tells datagrams of a protocol.

    ``length`` returns the length of the datagram at the start of some bytes, 0 if they hold none;
    ``starts`` are the bytes with which one begins.
    """

    length: Callable[[bytes], int]
    starts: tuple[bytes, ...]

    def is_datagram(self, content: bytes) -> bool:
        """Whether bytes are one whole datagram."""
        return content.startswith(self.starts) and _length(self.length, content) == len(content)


class Datagram(NamedTuple):
    """One datagram: content, exporter (empty: unknown), arrival [ns] (None: unknown)."""

    content: bytes
    exporter: bytes
    arrival_ns: int | None


def datagrams(source: Source, protocol: Protocol, notes: Notes) -> Iterator[Datagram]:
    """Yield the datagrams of a capture or of a file of raw datagrams."""
    if is_capture(source.head):
        yield from _captured(frames(source, notes), protocol, notes)
        return
    with source.open() as stream:
        yield from _raw(_pieces(stream, source, notes), protocol, source, notes)


def _captured(packets: Iterator[Frame], protocol: Protocol, notes: Notes) -> Iterator[Datagram]:
    """Yield what UDP packets carry; those that came in fragments are put together."""
    assembly = Assembly()
    for frame in packets:
        at = network(frame.link_type, frame.content)
        ip = at if isinstance(at, str) else read_ip(at, frame.content, frame.length)
        if isinstance(ip, str) or ip.protocol != UDP:
            notes.drop(OTHER_PACKET)
            continue
        content: bytes | None = frame.content[ip.place : ip.place + ip.left]
        if ip.fragment is not None:
            content = assembly.add(ip.fragment, content or b"")
        if content is None:
            continue  # it waits for the others
        size = int.from_bytes(content[4:6], "big")
        if size < 8 or not content[8:].startswith(protocol.starts):
            notes.drop(OTHER_PACKET)
        else:
            yield Datagram(content[8:size], ip.source, frame.time_ns)
    notes.drop(INCOMPLETE, assembly.missing)


def _pieces(stream: IO[bytes], source: Source, notes: Notes) -> Iterator[bytes]:
    """Yield all that can be read, in pieces so small that little of a damaged file is lost."""
    try:
        while piece := stream.read(_PIECE_BYTES):
            yield piece
    except BROKEN as error:
        notes.drop("file not read to its end")
        notes.remark(f"{source}: read up to where it is damaged: {error}")


def _raw(
    pieces: Iterator[bytes], protocol: Protocol, source: Source, notes: Notes
) -> Iterator[Datagram]:
    held, place, skipped = b"", 0, 0
    while True:
        while len(held) - place < _LARGEST and (piece := next(pieces, b"")):
            held, place = held[place:] + piece, 0
        if place >= len(held):
            break
        size = _length(protocol.length, held[place : place + _LARGEST])
        if 0 < size <= len(held) - place:
            yield Datagram(held[place : place + size], b"", None)
            place += size
        else:
            found = _next(held, place + 1, protocol.starts)
            skipped += found - place
            place = found
    if skipped:
        notes.drop("byte between datagrams, of a damaged or cut one", skipped)
        notes.remark(f"{source}: parts of it are no export datagrams")


def _next(held: bytes, place: int, starts: tuple[bytes, ...]) -> int:
    """Return where a datagram may begin at or after a place."""
    found = [at for start in starts if (at := held.find(start, place)) >= 0]
    rest = max(len(starts[0]) - 1, 0)  # the bytes of a start that may go on in the next piece
    return min(found, default=max(place, len(held) - rest))


def _length(length: Callable[[bytes], int], held: bytes) -> int:
    try:
        return length(held)
    except (struct.error, IndexError):
        return 0


def holds(head: bytes, protocol: Protocol) -> bool:
    """Return whether a file that starts so consists of datagrams, raw or captured.

    What its first packets carry shows it, whatever their ports: to a collector go datagrams, and
    some other packets. In a capture of a network's traffic, hardly any are datagrams.
    """
    if not is_capture(head):
        return _length(protocol.length, head) > 0
    found = count_datagrams(head, protocol)
    return found.datagrams > 0 and found.datagrams >= _FEWEST_SHARE * found.packets


class Counted(NamedTuple):
    """The first packets of a capture, and how many of them are datagrams of a protocol."""

    packets: int
    datagrams: int


def count_datagrams(head: bytes, protocol: Protocol) -> Counted:
    """Count the whole packets at the start of a capture, and the datagrams among them."""
    counts = Notes()
    packets = list(frames_of(head))
    found = _captured(iter(packets), protocol, counts)
    return Counted(len(packets), sum(protocol.is_datagram(one.content) for one in found))

"""Export datagrams: NetFlow, IPFIX and sFlow as exporters send them, out of a file.

They come in two forms. A capture of the collector's port has them as UDP packets, with the time
of arrival and the exporter's address. A file of raw datagrams has them one after another, as
``nc -ul`` or an IPFIX file (RFC 5655) stores them; the content shows where one ends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from llmprism.ingest.captures import frames, frames_of, is_capture
from llmprism.ingest.notes import Notes
from llmprism.ingest.packets import udp_payload
from llmprism.ingest.sources import BROKEN, Source

_LARGEST = 65_535  # bytes of a datagram
_PIECE_BYTES = 1 << 14  # read at once: the last piece of a damaged file is lost


class Protocol(NamedTuple):
    """What tells datagrams of a protocol.

    ``length`` returns the length of the datagram at the start of some bytes, 0 if they hold none;
    ``starts`` are the bytes with which one begins; ``ports`` are those of collectors.
    """

    length: Callable[[bytes], int]
    starts: tuple[bytes, ...]
    ports: frozenset[int]


class Datagram(NamedTuple):
    """One datagram: content, exporter (empty: unknown), arrival [ns] (None: unknown)."""

    content: bytes
    exporter: bytes
    arrival_ns: int | None


def datagrams(source: Source, protocol: Protocol, notes: Notes) -> Iterator[Datagram]:
    """Yield the datagrams of a capture or of a file of raw datagrams."""
    if is_capture(source.head):
        for frame in frames(source, notes):
            found = udp_payload(frame.link_type, frame.content)
            if found is None:
                notes.drop("packet that carries no export datagram")
            else:
                yield Datagram(found[0], found[1], frame.time_ns)
        return
    with source.open() as stream:
        yield from _raw(_pieces(stream, source, notes), protocol, source, notes)


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

    The first packet of a capture shows it: it goes to a collector's port and holds a datagram.
    """
    if not is_capture(head):
        return _length(protocol.length, head) > 0
    for frame in frames_of(head):
        found = udp_payload(frame.link_type, frame.content)
        if found is None or found[2] not in protocol.ports:
            return False
        return _length(protocol.length, found[0]) > 0
    return False

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

Length = Callable[[bytes], int]
"""Returns the length of the datagram at the start of some bytes: 0 if they hold none."""


class Datagram(NamedTuple):
    """One datagram: content, exporter (empty: unknown), arrival [ns] (None: unknown)."""

    content: bytes
    exporter: bytes
    arrival_ns: int | None


def datagrams(source: Source, length: Length, notes: Notes) -> Iterator[Datagram]:
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
        try:
            yield from _raw(stream, length, source, notes)
        except BROKEN as error:
            notes.drop("file not read to its end")
            notes.remark(f"{source}: read up to where it is damaged: {error}")


def _raw(stream: IO[bytes], length: Length, source: Source, notes: Notes) -> Iterator[Datagram]:
    held = b""
    skipped = 0
    while True:
        if len(held) < _LARGEST:
            held += stream.read(1 << 20)
        if not held:
            break
        size = _length(length, held)
        if 0 < size <= len(held):
            yield Datagram(held[:size], b"", None)
            held = held[size:]
        else:
            held = held[1:]
            skipped += 1
    if skipped:
        notes.drop("byte between datagrams, of a damaged or cut one", skipped)
        notes.remark(f"{source}: parts of it are no export datagrams")


def _length(length: Length, held: bytes) -> int:
    try:
        return length(held[:_LARGEST])
    except (struct.error, IndexError):
        return 0


def holds(head: bytes, length: Length, ports: frozenset[int]) -> bool:
    """Return whether a file that starts so consists of datagrams, raw or captured.

    The first packet of a capture shows it: it goes to one of ``ports`` and holds a datagram.
    """
    if not is_capture(head):
        return _length(length, head) > 0
    for frame in frames_of(head):
        found = udp_payload(frame.link_type, frame.content)
        return found is not None and found[2] in ports and _length(length, found[0]) > 0
    return False

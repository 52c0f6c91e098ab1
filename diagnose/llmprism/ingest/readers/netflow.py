"""NetFlow v5, v9 and IPFIX as exporters send them: raw datagrams or a capture of them.

A file is read twice. The first pass learns what exporters tell about themselves, which they may do
after the records that it holds for: sampling rates (:mod:`llmprism.ingest.rates`), and when they
started (:mod:`llmprism.ingest.starts`). The second pass yields the records, and follows sequences.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from llmprism.ingest.bounds import EARLIEST_NS, column
from llmprism.ingest.datagrams import Datagram, Protocol, datagrams, holds
from llmprism.ingest.exports import Decoder, Records, Scope
from llmprism.ingest.flow_cache import address_text
from llmprism.ingest.flow_times import flow_times, largest_low_us
from llmprism.ingest.options import Options
from llmprism.ingest.rates import Rates
from llmprism.ingest.readers import register
from llmprism.ingest.records import BATCH_ROWS, batch, scaled, turned
from llmprism.ingest.sightings import EGRESS
from llmprism.ingest.sources import Source
from llmprism.ingest.starts import RESTARTED, ExporterMemory, Starts
from llmprism.ingest.templates import Columns
from llmprism.ingest.volumes import NO_BYTES, Volume, forward, reverse
from llmprism.io.notes import Notes
from llmprism.numerics.arrays import Array, Bools, Ints

UNSET_CLOCK = "the clock of an exporter is not set: its times count from its start"
_MOST_US = 1_000_000  # of a second


def datagram_length(content: bytes) -> int:
    """Return how long the datagram at the start of some bytes is; 0 if there is none."""
    version, second = (int(one) for one in struct.unpack_from(">HH", content))
    if version == 5 and 1 <= second <= 30:
        return 24 + 48 * second
    if version == 10 and second >= 16:
        return second if _sets_end(content, 16, second) == second else 0
    if version == 9 and 1 <= second <= 10_000:
        return _sets_end(content, 20, len(content))
    return 0


def _sets_end(content: bytes, place: int, limit: int) -> int:
    """Return where the sets that start at ``place`` end."""
    start = place
    while place + 4 <= limit:
        number, size = struct.unpack_from(">HH", content, place)
        if (3 < number < 256) or size < 4 or place + size > len(content):
            break
        place += size
    return place if place > start else 0


PROTOCOL = Protocol(datagram_length, (b"\0\5", b"\0\x09", b"\0\x0a"))


def _recognises(head: bytes, _name: str) -> bool:
    return holds(head, PROTOCOL)


@dataclass
class _Learned:
    """What the exporters of a file tell about themselves."""

    rates: Rates = field(default_factory=Rates)
    starts: Starts = field(default_factory=Starts)
    lows_us: dict[Scope, int] = field(default_factory=dict)

    def learn(self, records: Records) -> None:
        """Take what records of flows or of options show."""
        if records.is_options:
            self.rates.learn(records)
        self.starts.learn(records)
        low = max(largest_low_us(records), self.lows_us.get(records.scope, 0))
        self.lows_us[records.scope] = low

    def has_us(self, scope: Scope) -> bool:
        """Whether timestamps hold us where a fraction of the second should be."""
        return 0 < self.lows_us.get(scope, 0) < _MOST_US


@register("netflow", "NetFlow v5, v9, IPFIX datagrams, raw or captured", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of export datagrams."""
    memory = options.exporters or ExporterMemory()
    learned = _learned(source, memory.starts)
    if learned.starts.has_restarts:
        notes.remark(f"{source}: {RESTARTED}")
    decoder = Decoder(notes)
    held: list[pa.Table] = []
    rows = 0
    for datagram in datagrams(source, PROTOCOL, notes):
        units = 0
        for records in decoder.decode(datagram):
            units += records.count
            if not records.is_options:
                held += _tables(records, learned, source, notes)
                rows += records.count
        _follow(datagram, units, memory)
        if rows >= BATCH_ROWS:
            yield scaled(pa.concat_tables(held).combine_chunks())
            held, rows = [], 0
    decoder.end()
    if held:
        yield scaled(pa.concat_tables(held).combine_chunks())


def _follow(datagram: Datagram, records: int, memory: ExporterMemory) -> None:
    """Take note of the sequence and the clock of a datagram that had so many records."""
    content, version = datagram.content, int.from_bytes(datagram.content[:2], "big")
    places = {5: (16, 20, 8), 9: (12, 16, 8), 10: (8, 12, 4)}  # sequence, domain and clock
    if version not in places or len(content) < 20 or not datagram.exporter:
        return
    if datagram.arrival_ns is not None and datagram.arrival_ns < EARLIEST_NS:
        return  # a template that was remembered, and did not come now
    sequence, place, clock = places[version]
    sent_ns = int.from_bytes(content[clock : clock + 4], "big") * 1_000_000_000
    if datagram.arrival_ns is not None and sent_ns >= EARLIEST_NS:
        memory.compare(datagram.exporter, sent_ns, datagram.arrival_ns)
    domain = content[21] if version == 5 else int.from_bytes(content[place : place + 4], "big")
    number = int.from_bytes(content[sequence : sequence + 4], "big")
    units = 1 if version == 9 else records or None
    memory.sequences.saw((datagram.exporter, version, domain), number, units)


def _learned(source: Source, starts: Starts) -> _Learned:
    starts.begin_file()
    learned, decoder = _Learned(starts=starts), Decoder(Notes())
    for datagram in datagrams(source, PROTOCOL, Notes()):
        for records in decoder.decode(datagram):
            learned.learn(records)
    return learned


def _tables(
    records: Records, learned: _Learned, source: Source, notes: Notes
) -> Iterator[pa.Table]:
    """Yield the records of a data set: one table for each direction that they count."""
    sent = forward(records.columns, records.count)
    answered = reverse(records.columns, records.count)
    has_answer = np.zeros(records.count, dtype=np.bool_)
    if answered is not None:
        has_answer = ~answered.is_empty & ~answered.bytes.bad
    drop = sent.is_empty & has_answer
    if "233" in records.columns:
        is_event = (sent.is_empty | sent.bytes.bad) & ~has_answer
        notes.drop(NO_BYTES, int(np.count_nonzero(is_event)))
        drop |= is_event
    common = _common(records, learned, source, notes)
    yield _kept(common, sent, _points(records, source, False), ~drop)
    if answered is not None and has_answer.any():
        yield turned(_kept(common, answered, _points(records, source, True), has_answer))


def _kept(common: Mapping[str, Any], volume: Volume, points: list[str], keep: Bools) -> pa.Table:
    table = batch(
        {
            **common,
            "bytes": column(*volume.bytes),
            "packets": column(*volume.packets),
            "observer": points,
        }
    )
    return table if keep.all() else table.filter(pa.array(keep))


def _common(records: Records, learned: _Learned, source: Source, notes: Notes) -> dict[str, Any]:
    """Return the columns that are the same for both directions."""
    if records.moment.now_ns is None:
        notes.remark(f"{source}: {UNSET_CLOCK}")
    start_ns = learned.starts.of(records, notes)
    start, end = flow_times(records, start_ns, learned.has_us(records.scope))
    return {
        "start_ns": column(*start),
        "end_ns": column(*end),
        "sampling": learned.rates.of(records, notes),
        **_connection(records),
    }


def _connection(records: Records) -> dict[str, Any]:
    """Return addresses, ports and protocol of one packet header for each record."""
    headers, columns, count = records.headers, records.columns, records.count
    chosen = _chosen(records)
    found: dict[str, Any] = {}
    for kind in ("src", "dst"):
        choices = [_addresses(columns, getattr(one, kind), count) for one in headers]
        found[kind] = [choices[place][row] for row, place in enumerate(chosen.tolist())]
    for kind, largest in (("src_port", 65_535), ("dst_port", 65_535), ("protocol", 255)):
        numbers = [_small(columns, getattr(one, kind), count, largest) for one in headers]
        values = np.choose(chosen, numbers)
        found[kind] = pa.array(values, mask=values < 0)
    return found


def _chosen(records: Records) -> Ints:
    """Return the best header of each record whose addresses are set, or the first."""
    headers, columns, count = records.headers, records.columns, records.count
    chosen = np.zeros(count, dtype=np.int64)
    for place in range(len(headers) - 1, -1, -1) if len(headers) > 1 else ():
        ends = (headers[place].src, headers[place].dst)
        is_set = np.logical_and(*(_is_set(columns, names, count) for names in ends))
        chosen[is_set] = place
    return chosen


def _is_set(columns: Columns, names: tuple[str, ...], count: int) -> Bools:
    """Mark the records whose address is other than 0."""
    found = np.zeros(count, dtype=np.bool_)
    for name in names:
        if name in columns:
            found |= _bytes_of(columns[name]).any(axis=1)
    return found


def _bytes_of(addresses: Array) -> Array:
    size = addresses.dtype.itemsize
    return np.ascontiguousarray(addresses).view(np.uint8).reshape(addresses.size, size)


def _addresses(columns: Columns, names: tuple[str, ...], count: int) -> list[str | None]:
    """Return addresses as text: the first that is other than 0, IPv4 before IPv6."""
    result: list[str | None] = [None] * count
    for name in reversed([one for one in names if one in columns]):
        texts = [address_text(raw) for raw in columns[name].tolist()]
        is_set = [any(raw) for raw in columns[name].tolist()]
        result = [
            text if known or before is None else before
            for text, known, before in zip(texts, is_set, result, strict=True)
        ]
    return result


def _small(columns: Columns, names: tuple[str, ...], count: int, largest: int) -> Array:
    """Return numbers of a header, -1 where they are unknown or too large."""
    for name in names:
        if name in columns:
            values = columns[name]
            return np.where(values > np.uint64(largest), -1, values.astype(np.int64))
    return np.full(count, -1, dtype=np.int64)


def _points(records: Records, source: Source, is_reverse: bool) -> list[str]:
    """Return the observation point of each record; packets that leave have one of their own."""
    point = address_text(records.scope[0]) if records.scope[0] else source.label
    if "61" not in records.columns:
        return [point] * records.count
    leaving = (records.columns["61"] == 1) != is_reverse
    return [point + EGRESS if one else point for one in leaving.tolist()]

"""NetFlow v5, v9 and IPFIX as exporters send them: raw datagrams or a capture of them.

NetFlow counts time in ms since the exporter started. Version 9 tells the wall clock in whole
seconds only, so the start is worked out from all datagrams of an exporter together: it lies at
or after "wall clock minus uptime" of each, and the largest of these is closest. A capture of
datagrams also has their times of arrival: the start lies at or before "arrival minus uptime" of
each, and the smallest of these is closer, if it fits the wall clock's whole seconds. An exporter
that restarts, or sets its clock, is a new one from there on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from llmprism.ingest.datagrams import Protocol, datagrams, holds
from llmprism.ingest.exports import Decoder, Records, Scope
from llmprism.ingest.flow_cache import address_text
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import BATCH_ROWS, SCHEMA, batch
from llmprism.ingest.sampling import scaled
from llmprism.ingest.sightings import EGRESS
from llmprism.ingest.sources import Source

NO_CLOCK = "record without a time, or with one that needs the exporter's start, which is unknown"
_NTP_EPOCH_S = 2_208_988_800
_SECOND_NS = 1_000_000_000
_SLACK_NS = 50_000_000  # that arrival may be before the exporter's clock: clocks differ
_SAME_START_NS = 2_000_000_000  # starts of one exporter, as its datagrams tell, are this close
_PORTS = frozenset({2055, 2056, 4739, 9995, 9996, 9555, 9025})
_WRAP = 1 << 32
_DELTAS = ("158", "159")  # us before the datagram was sent

Starts = dict[Scope, list[tuple[int, int]]]
"""For each exporter: (number of its first datagram, start [ns]), one for each time it started."""


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


PROTOCOL = Protocol(datagram_length, (b"\0\5", b"\0\x09", b"\0\x0a"), _PORTS)


def _recognises(head: bytes, _name: str) -> bool:
    return holds(head, PROTOCOL)


@register("netflow", "NetFlow v5, v9, IPFIX datagrams, raw or captured", _recognises)
def read(source: Source, _options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of export datagrams."""
    starts = _find_starts(source)
    if any(len(found) > 1 for found in starts.values()):
        notes.remark(f"{source}: an exporter restarted, or its clock was set")
    decoder = Decoder(notes)
    number = 0
    held: list[pa.Table] = []
    rows = 0
    for number, datagram in enumerate(datagrams(source, PROTOCOL, notes)):
        for records in decoder.decode(datagram):
            table = _table(records, _start(starts, records.scope, number, decoder), source, notes)
            held.append(table)
            rows += table.num_rows
        if rows >= BATCH_ROWS:
            yield scaled(pa.concat_tables(held).combine_chunks())
            held, rows = [], 0
    decoder.end()
    if held:
        yield scaled(pa.concat_tables(held).combine_chunks())


def _find_starts(source: Source) -> Starts:
    """Return when each exporter of NetFlow v9 started, from the headers of all datagrams."""
    bounds: dict[Scope, list[_Bounds]] = {}
    for number, datagram in enumerate(datagrams(source, PROTOCOL, Notes())):
        content = datagram.content
        if len(content) < 20 or content[:2] != b"\0\x09":
            continue
        uptime, seconds, _, scope_id = struct.unpack_from(">IIII", content, 4)
        uptime_ns = uptime * 1_000_000
        earliest = seconds * _SECOND_NS - uptime_ns
        latest = None if datagram.arrival_ns is None else datagram.arrival_ns - uptime_ns
        known = bounds.setdefault((datagram.exporter, 9, scope_id), [])
        if not known or abs(earliest - known[-1].earliest_ns) > _SAME_START_NS:
            known.append(_Bounds(number, earliest, latest))  # a restart, or the uptime wrapped
        else:
            known[-1].narrow(earliest, latest)
    return {scope: [(one.number, one.start_ns) for one in each] for scope, each in bounds.items()}


@dataclass
class _Bounds:
    """Between which times an exporter started, from datagram ``number`` on."""

    number: int
    earliest_ns: int
    latest_ns: int | None

    def narrow(self, earliest_ns: int, latest_ns: int | None) -> None:
        """Take what another datagram of the same start shows."""
        self.earliest_ns = max(self.earliest_ns, earliest_ns)
        if latest_ns is not None:
            self.latest_ns = min(latest_ns, self.latest_ns or latest_ns)

    @property
    def start_ns(self) -> int:
        """The start: from arrivals if their clock agrees with the exporter's."""
        if self.latest_ns is None:
            return self.earliest_ns
        after = self.latest_ns - self.earliest_ns
        return self.latest_ns if -_SLACK_NS <= after <= _SECOND_NS else self.earliest_ns


def _start(starts: Starts, scope: Scope, number: int, decoder: Decoder) -> int | None:
    """Return the start of an exporter as it was when a datagram was sent."""
    if scope in decoder.boot_ns:
        return decoder.boot_ns[scope]
    before = [start for first, start in starts.get(scope, []) if first <= number]
    return before[-1] if before else None


def _table(records: Records, start: int | None, source: Source, notes: Notes) -> pa.Table:
    columns = records.columns
    first, last = _times(records, start)
    if first is None or last is None:
        notes.drop(NO_CLOCK, records.count)
        return SCHEMA.empty_table()
    point = address_text(records.scope[0]) if records.scope[0] else source.label
    if "61" in columns and columns["61"].dtype.kind == "u":
        leaving = columns["61"] == 1
        points = np.where(leaving, point + EGRESS, point).tolist()
    else:
        points = [point] * records.count
    return batch(
        {
            "start_ns": first,
            "end_ns": last,
            "src": _addresses(columns, "8", "27", records.count),
            "dst": _addresses(columns, "12", "28", records.count),
            "bytes": _first_of(columns, ("1", "23", "85"), records.count),
            "packets": _first_of(columns, ("2", "24", "86"), records.count),
            "src_port": _first_of(columns, ("7",), records.count, 65_535),
            "dst_port": _first_of(columns, ("11",), records.count, 65_535),
            "protocol": _first_of(columns, ("4",), records.count, 255),
            "sampling": [min(records.sampling, 2**31 - 1)] * records.count,
            "observer": points,
        }
    )


def _first_of(
    columns: dict[str, Any], names: tuple[str, ...], count: int, largest: int = 2**62
) -> pa.Array:
    for name in names:
        if name in columns and columns[name].dtype.kind == "u":
            values = columns[name].astype(np.uint64)
            bad = values > np.uint64(largest)
            return pa.array(np.where(bad, 0, values).astype(np.int64), mask=bad)
    return pa.nulls(count, pa.int64())


def _addresses(columns: dict[str, Any], four: str, six: str, count: int) -> list[str | None]:
    """Return addresses as text: IPv4 where there is one other than 0.0.0.0, else IPv6."""
    result: list[str | None] = [None] * count
    for name, size in ((six, 16), (four, 4)):
        if name not in columns or columns[name].dtype.itemsize != size:
            continue
        raw = columns[name].tobytes()
        for row in range(count):
            part = raw[row * size : row * size + size]
            if any(part) or result[row] is None:
                result[row] = address_text(part)
    return result


def _times(records: Records, start: int | None) -> tuple[Any, Any]:
    """Return first and last packet [ns]; None where the records do not tell."""
    columns = records.columns
    for names, unit in (
        (("156", "157"), "ntp"),
        (("154", "155"), "ntp"),
        (("152", "153"), 1_000_000),
        (("150", "151"), 1_000_000_000),
    ):
        if all(_is_number(columns, name, (4, 8)) for name in names):
            return _absolute(columns[names[0]], unit), _absolute(columns[names[1]], unit)
    if all(_is_number(columns, name, (4,)) for name in _DELTAS):
        first, last = (records.clock_ns - 1000 * columns[one].astype(np.int64) for one in _DELTAS)
        return first, last
    if all(_is_number(columns, name, (4,)) for name in ("22", "21")):
        first, last = (_from_uptime(columns[name], records, start) for name in ("22", "21"))
        return first, last
    return None, None


def _is_number(columns: dict[str, Any], name: str, sizes: tuple[int, ...]) -> bool:
    return (
        name in columns
        and columns[name].dtype.kind == "u"
        and columns[name].dtype.itemsize in sizes
    )


def _absolute(values: Any, unit: int | str) -> Any:
    if unit == "ntp":
        wide = values.astype(np.uint64)
        seconds = (wide >> np.uint64(32)).astype(np.int64) - _NTP_EPOCH_S
        fraction = (wide & np.uint64(0xFFFFFFFF)).astype(np.float64) * 1e9 / 2.0**32
        return seconds * 1_000_000_000 + np.rint(fraction).astype(np.int64)
    small = np.minimum(values.astype(np.uint64), np.uint64(2**62 // int(unit)))
    return small.astype(np.int64) * int(unit)


def _from_uptime(values: Any, records: Records, start: int | None) -> Any:
    """Return wall times of ms since the exporter's start; the counter may have wrapped."""
    since = values.astype(np.int64)
    if records.uptime_ms is None:
        return None if start is None else start + since * 1_000_000
    wrapped = (since - records.uptime_ms + _WRAP // 2) % _WRAP - _WRAP // 2
    now = records.clock_ns if start is None else start + records.uptime_ms * 1_000_000
    return now + wrapped * 1_000_000

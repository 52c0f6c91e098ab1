"""When the first and the last packet of a flow record passed [ns].

Exporters tell it in several ways, and in some records of a template not at all: 0 is no time. Of
each record the finest pair of times that is possible is taken. What only one time is known of ends
where it starts, or lasts the duration that it tells; a firewall tells the time of its event.

RFC 7011 has one form for each field: seconds or ms since 1970, or for us and ns a timestamp of NTP
(seconds since 1900 and a binary fraction). Exporters send other forms: us or ns since 1970, seconds
and us, seconds since 1900 and us. A number of 64 bits has at most one reading from 1990 to 2043, so
that the number itself tells its form. Only us and fractions in the lower half look alike: they are
us if no value of the exporter is larger than us can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from llmprism.ingest.bounds import LARGEST, as_int64, epoch_ns, wall_clock_ns
from llmprism.ingest.exports import Records
from llmprism.ingest.starts import MS_NS
from llmprism.numerics.arrays import Array, Bools, Ints

_PAIRS = (("156", "157"), ("154", "155"), ("152", "153"), ("150", "151"))  # finest first
_EVENTS = frozenset({"322", "323", "324", "325"})
_DELTAS = ("158", "159")  # us before the datagram was sent
_UPTIMES = ("22", "21")
_DURATIONS = (("162", 1_000), ("161", MS_NS))
_NTP_FIELDS = frozenset({"154", "155", "156", "157", "324", "325"})
_US_FIELDS = frozenset({"154", "155", "324"})
_UNITS_NS = (1_000_000_000, MS_NS, 1_000, 1)
_NTP_EPOCH_S = 2_208_988_800
_SECOND_NS = 1_000_000_000
_LOW = np.uint64(0xFFFFFFFF)
_WRAP = 1 << 32  # ms, of a counter of uptime


class Instants(NamedTuple):
    """Times [ns] of records, and which are unknown."""

    ns: Ints
    unknown: Bools

    def otherwise(self, other: Instants) -> Instants:
        """Return these times, and the other ones where these are unknown."""
        return Instants(np.where(self.unknown, other.ns, self.ns), self.unknown & other.unknown)

    def without(self, bad: Bools) -> Instants:
        """Return these times, unknown also where they are bad."""
        unknown = self.unknown | bad
        return Instants(np.where(unknown, 0, self.ns), unknown)


def flow_times(records: Records, start_ns: int | None, has_us: bool) -> tuple[Instants, Instants]:
    """Return the first and the last packet of each record.

    Parameters
    ----------
    start_ns : when the exporter started, where that is known.
    has_us : whether its timestamps of NTP hold us in place of a fraction.
    """
    columns = records.columns.keys()
    pairs = [
        (_absolute(records, first, has_us), _absolute(records, last, has_us))
        for first, last in _PAIRS
        if first in columns or last in columns
    ]
    if columns & set(_DELTAS):
        pairs.append((_before_export(records, _DELTAS[0]), _before_export(records, _DELTAS[1])))
    if columns >= set(_UPTIMES):
        pairs.append(_since_start(records, start_ns))
    start = end = _none(records.count)
    for first, last in pairs:
        both = ~(first.unknown | last.unknown)
        start, end = start.otherwise(first.without(~both)), end.otherwise(last.without(~both))
    return _completed(records, start, end, pairs, has_us)


def _completed(
    records: Records,
    start: Instants,
    end: Instants,
    pairs: Sequence[tuple[Instants, Instants]],
    has_us: bool,
) -> tuple[Instants, Instants]:
    """Return the times, with those of records of which no pair is whole."""
    for first, last in pairs:
        start, end = start.otherwise(first), end.otherwise(last)
    for name in sorted(records.columns.keys() & _EVENTS):
        end = end.otherwise(_absolute(records, name, has_us))
    if not (start.unknown.any() or end.unknown.any()):
        return start, end
    length = _durations(records)
    start = start.otherwise(Instants(end.ns - length, end.unknown))
    end = end.otherwise(Instants(start.ns + length, start.unknown))
    return start, end


def largest_low_us(records: Records) -> int:
    """Return the largest lower half of the timestamps of NTP that count us, 0 without any."""
    lows = [
        int((values[_is_ntp(values)] & _LOW).max(initial=0))
        for name, values in records.columns.items()
        if name in _US_FIELDS
    ]
    return max(lows, default=0)


def _none(count: int) -> Instants:
    return Instants(np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_))


def _absolute(records: Records, name: str, has_us: bool) -> Instants:
    """Return the times of a field in whatever form they are."""
    values = records.columns.get(name)
    if values is None:
        return _none(records.count)
    found = _timestamps(values, name, has_us)
    for unit_ns in _UNITS_NS:
        if not found.unknown.any():
            break
        found = found.otherwise(Instants(*wall_clock_ns(values, unit_ns)))
    return found


def _is_ntp(values: Array) -> Bools:
    """Mark seconds since 1900, in the upper half, of a time from 1970 on."""
    later: Bools = (values >> np.uint64(32)) > np.uint64(_NTP_EPOCH_S)
    return later


def _timestamps(values: Array, name: str, has_us: bool) -> Instants:
    """Return what timestamps of two halves say: seconds, and a part of a second."""
    if name not in _NTP_FIELDS:
        return _none(values.size)
    is_ntp = _is_ntp(values)
    seconds = (values >> np.uint64(32)).astype(np.int64) - np.where(is_ntp, _NTP_EPOCH_S, 0)
    low = (values & _LOW).astype(np.int64)
    unit_ns = 1_000 if name in _US_FIELDS else 1  # of a plain number in the lower half
    plain = (is_ntp & has_us & (name in _US_FIELDS)) | ~is_ntp
    plain &= low < _SECOND_NS // unit_ns
    part = np.where(plain, low * unit_ns, np.rint(low * (_SECOND_NS / 2.0**32)).astype(np.int64))
    whole, unknown = wall_clock_ns(seconds, _SECOND_NS)
    return Instants(np.where(unknown, 0, whole + part), unknown)


def _before_export(records: Records, name: str) -> Instants:
    """Return times that count back from the export."""
    now_ns = records.moment.now_ns
    if name not in records.columns or now_ns is None:
        return _none(records.count)
    delta, bad = epoch_ns(records.columns[name], 1_000)
    return Instants(np.where(bad, 0, now_ns - delta), bad)


def _since_start(records: Records, start_ns: int | None) -> tuple[Instants, Instants]:
    """Return times that count from the exporter's start; both 0 are none."""
    columns = records.columns
    (first, bad_first), (last, bad_last) = (as_int64(columns[name]) for name in _UPTIMES)
    unset = (first == 0) & (last == 0)
    begins = _starts(records, start_ns)
    return (
        _moved(records, begins, first, bad_first | unset),
        _moved(records, begins, last, bad_last | unset),
    )


def _starts(records: Records, start_ns: int | None) -> Instants:
    """Return the exporter's start for each record: its own, or what is known of the exporter."""
    own = _none(records.count)
    if "160" in records.columns:
        own = Instants(*wall_clock_ns(records.columns["160"], MS_NS))
    moment = records.moment
    if start_ns is None and moment.uptime_ms is not None:
        start_ns = moment.now_ns - moment.uptime_ms * MS_NS if moment.now_ns else 0
    if start_ns is None:
        return own
    known = np.full(records.count, start_ns, dtype=np.int64)
    return own.otherwise(Instants(known, np.zeros(records.count, dtype=np.bool_)))


def _moved(records: Records, begins: Instants, since_ms: Ints, bad: Bools) -> Instants:
    """Return times of ms since a start; a counter of 32 bits wraps after 49.7 days."""
    moment = records.moment
    since = np.minimum(since_ms, LARGEST // (4 * MS_NS))
    if moment.uptime_ms is not None and moment.uptime_ms < _WRAP:
        uptime = np.full(since.size, moment.uptime_ms, dtype=np.int64)
    elif moment.now_ns is not None:
        uptime = (moment.now_ns - begins.ns) // MS_NS
    else:
        return Instants(begins.ns + since * MS_NS, begins.unknown).without(bad)
    wrapped = (since - uptime + _WRAP // 2) % _WRAP - _WRAP // 2
    short = np.where(since < _WRAP, uptime + wrapped, since)
    return Instants(begins.ns + short * MS_NS, begins.unknown).without(bad)


def _durations(records: Records) -> Ints:
    """Return how long records last where they tell so [ns]; 0 where they do not."""
    for name, unit_ns in _DURATIONS:
        if name in records.columns:
            return epoch_ns(records.columns[name], unit_ns)[0]
    return np.zeros(records.count, dtype=np.int64)

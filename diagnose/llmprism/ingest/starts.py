"""When exporters started: what times count from that are given in ms since then.

- An exporter may tell its start, in options (field 160); the last ones before a record hold.
- Version 9 tells the wall clock in whole seconds beside the uptime. The start lies at or after
  "wall clock minus uptime" of each datagram, and the largest of these is closest.
- Datagrams that were captured have times of arrival: the start lies at or before "arrival minus
  uptime" of each, and the smallest of these is closer, if it fits the wall clock's seconds.
- IPFIX without field 160 shows bounds only: no flow ends after its export, so the start lies at
  or before "export minus end of the flow" of each record. The smallest is taken: durations and
  distances are exact, the whole may be early or late by the time that records wait for export.

An exporter that restarts, or sets its clock, is a new one from there on. A datagram shows itself to
which start it belongs, by its wall clock and uptime, so one that comes late changes nothing. A
clock drifts against the uptime, so only datagrams around the same time count for each other.
Estimates are carried over from file to file, as long as exporters are known by their addresses.

Sequences show what was lost on the way. NetFlow v9 counts datagrams, v5 and IPFIX count records. A
number that is higher than expected shows a loss, one that is a little lower that a datagram came
late, and one that is much lower that the exporter has started again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from llmprism.ingest.bounds import EARLIEST_NS, as_int64, wall_clock_ns
from llmprism.ingest.exports import Moment, Records, Scope
from llmprism.io.notes import Notes

MS_NS = 1_000_000
ESTIMATED = (
    "times since an exporter's start, which it does not tell: the start is estimated from the "
    "times of export; durations and distances are exact"
)
RESTARTED = "an exporter restarted, or its clock was set"
_SECOND_NS = 1_000_000_000
_SLACK_NS = 50_000_000  # that arrival may be before the exporter's clock: clocks differ
_SAME_START_NS = 2_000_000_000  # starts of one exporter, as its datagrams tell, are this close
_LONGEST_WAIT_NS = 3_600 * _SECOND_NS  # from the end of a flow to its export: timeouts are shorter
_BUCKET_NS = 120 * _SECOND_NS  # a clock that drifts by 20 ppm is 2.4 ms away after it
_MISSED = 8  # seconds of whose fractions chance leaves out the largest, of as many datagrams
_KEPT = 3  # buckets of a start that are carried over
_MOST_STARTS = 16  # of one exporter
_BEFORE = -1  # number of the datagrams of files before


@dataclass
class _Bounds:
    """Between which times an exporter started, as so many datagrams of one time show."""

    earliest_ns: int
    latest_ns: int | None
    datagrams: int = 1

    def narrow(self, other: _Bounds) -> None:
        """Take what others show."""
        self.earliest_ns = max(self.earliest_ns, other.earliest_ns)
        self.datagrams += other.datagrams
        if other.latest_ns is not None:
            self.latest_ns = min(other.latest_ns, self.latest_ns or other.latest_ns)

    @property
    def start_ns(self) -> int:
        """The start: from arrivals if their clock agrees with the exporter's, or that is unset.

        The earliest start is too early by the smallest fraction of a second that no datagram
        showed; so arrivals may be later by that.
        """
        if self.earliest_ns < EARLIEST_NS:
            return self.latest_ns or 0
        if self.latest_ns is None:
            return self.earliest_ns
        unshown_ns = _SECOND_NS * min(1.0, _MISSED / self.datagrams)
        agrees = -_SLACK_NS <= self.latest_ns - self.earliest_ns <= unshown_ns + _SLACK_NS
        return self.latest_ns if agrees else self.earliest_ns


@dataclass
class _Start:
    """One start of an exporter, as datagrams of each time show it."""

    buckets: dict[int, _Bounds] = field(default_factory=dict)

    def add(self, clock_ns: int, bounds: _Bounds) -> None:
        """Take what a datagram of a time shows."""
        known = self.buckets.get(clock_ns // _BUCKET_NS)
        if known is None:
            self.buckets[clock_ns // _BUCKET_NS] = bounds
        else:
            known.narrow(bounds)

    def near(self, clock_ns: int) -> _Bounds:
        """What the datagrams around a time show."""
        bucket = clock_ns // _BUCKET_NS
        near = [self.buckets[n] for n in range(bucket - 1, bucket + 2) if n in self.buckets]
        if not near:
            return self.buckets[min(self.buckets, key=lambda one: abs(one - bucket))]
        found = _Bounds(near[0].earliest_ns, near[0].latest_ns, near[0].datagrams)
        for one in near[1:]:
            found.narrow(one)
        return found


def needs_start(records: Records) -> bool:
    """Whether times of records count from a start that they do not tell themselves."""
    columns = records.columns.keys()
    return {"21", "22"} <= columns and "160" not in columns


@dataclass
class Starts:
    """Starts that files show, in the order of their datagrams."""

    _announced: dict[Scope, list[tuple[int, int]]] = field(default_factory=dict)
    _starts: dict[Scope, list[_Start]] = field(default_factory=dict)
    _latest: dict[Scope, list[tuple[int, int]]] = field(default_factory=dict)
    _restarts: int = 0

    def begin_file(self) -> None:
        """Carry over what is known of exporters with an address; the others may be different."""
        self._restarts = 0
        self._announced = {s: [(_BEFORE, o[-1][1])] for s, o in self._announced.items() if s[0]}
        self._latest = {s: [(_BEFORE, o[-1][1])] for s, o in self._latest.items() if s[0]}
        self._starts = {s: own for s, own in self._starts.items() if s[0]}
        for own in self._starts.values():
            del own[:-_MOST_STARTS]
            for one in own:
                one.buckets = {n: one.buckets[n] for n in sorted(one.buckets)[-_KEPT:]}

    def learn(self, records: Records) -> None:
        """Take what records, of flows or of options, and their datagram show."""
        scope, moment = records.scope, records.moment
        if records.is_options and "160" in records.columns:
            starts, bad = wall_clock_ns(records.columns["160"], MS_NS)
            for start_ns in starts[~bad].tolist():
                self._announced.setdefault(scope, []).append((moment.number, start_ns))
        if moment.uptime_ms is not None and scope[1] == 9:
            self._narrow(scope, moment)
        elif scope[1] == 10 and needs_start(records):
            self._bound(records)

    def of(self, records: Records, notes: Notes) -> int | None:
        """Return the start [ns] of the records' exporter; None if it is unknown or not needed."""
        scope, moment = records.scope, records.moment
        if not needs_start(records):
            return None
        if scope in self._announced:
            return _last(self._announced[scope], moment.number)
        if scope in self._starts and moment.uptime_ms is not None:
            start = self._same(scope, moment)
            return None if start is None else start.near(moment.clock_ns).start_ns
        if scope in self._latest:
            notes.remark(ESTIMATED)
            return _last(self._latest[scope], moment.number)
        return None

    @property
    def has_restarts(self) -> bool:
        """Whether an exporter started more than once in this file."""
        return self._restarts > 0

    def _narrow(self, scope: Scope, moment: Moment) -> None:
        known = self._same(scope, moment)
        if known is None:  # a restart, or the uptime wrapped
            known = _Start()
            own = self._starts.setdefault(scope, [])
            self._restarts += bool(own)
            own.append(known)
        known.add(moment.clock_ns, _bounds(moment))

    def _same(self, scope: Scope, moment: Moment) -> _Start | None:
        """The start of the exporter that a datagram belongs to."""
        earliest_ns = _bounds(moment).earliest_ns
        own = self._starts.get(scope, [])
        away = [abs(one.near(moment.clock_ns).earliest_ns - earliest_ns) for one in own]
        nearest = min(range(len(own)), key=away.__getitem__, default=None)
        if nearest is None or away[nearest] > _SAME_START_NS:
            return None
        return own[nearest]

    def _bound(self, records: Records) -> None:
        """Take the latest start that the ends of flows allow."""
        now_ns = _export_ns(records.moment)
        ends, bad = as_int64(records.columns["21"])
        if now_ns is None or not ends[~bad].any():
            return
        latest = now_ns - int(ends[~bad].max()) * MS_NS
        known = self._latest.setdefault(records.scope, [])
        if known and latest <= known[-1][1] + _LONGEST_WAIT_NS:
            known[-1] = (known[-1][0], min(latest, known[-1][1]))
        else:
            self._restarts += bool(known)
            known.append((records.moment.number, latest))

    def stored(self) -> list[dict[str, Any]]:
        """What is carried over, in a form that JSON can hold."""
        self.begin_file()
        found = []
        for scope, own in self._starts.items():
            starts = [
                [
                    [n, one.earliest_ns, one.latest_ns, one.datagrams]
                    for n, one in it.buckets.items()
                ]
                for it in own
            ]
            found.append({**_named(scope), "starts": starts})
        found += [{**_named(scope), "latest_ns": own[-1][1]} for scope, own in self._latest.items()]
        return found

    @staticmethod
    def restored(rows: Iterable[dict[str, Any]]) -> Starts:
        """What was stored."""
        found = Starts()
        for row in rows:
            scope = (bytes.fromhex(row["exporter"]), int(row["version"]), int(row["source"]))
            if "latest_ns" in row:
                found._latest[scope] = [(_BEFORE, int(row["latest_ns"]))]
            else:
                found._starts[scope] = [
                    _Start({n: _Bounds(first, last, count) for n, first, last, count in buckets})
                    for buckets in row["starts"]
                ]
        return found


def _named(scope: Scope) -> dict[str, Any]:
    return {"exporter": scope[0].hex(), "version": scope[1], "source": scope[2]}


def _bounds(moment: Moment) -> _Bounds:
    """What one datagram shows of the start of its exporter."""
    uptime_ns = (moment.uptime_ms or 0) * MS_NS
    arrival_ns = moment.arrival_ns
    is_known = arrival_ns is not None and arrival_ns >= EARLIEST_NS
    latest_ns = arrival_ns - uptime_ns if arrival_ns is not None and is_known else None
    return _Bounds(moment.clock_ns - uptime_ns, latest_ns)


def _export_ns(moment: Moment) -> int | None:
    """Return when a datagram was sent: by its arrival, if that agrees with the exporter's clock."""
    now_ns, arrival_ns = moment.now_ns, moment.arrival_ns
    if now_ns is None or arrival_ns is None:
        return now_ns
    agrees = -_SLACK_NS <= arrival_ns - now_ns <= _SECOND_NS
    return arrival_ns if agrees else now_ns


def _last(starts: list[tuple[int, int]], number: int) -> int:
    """Return the last start before a datagram, or else the first of all."""
    place = bisect_right([first for first, _ in starts], number) - 1
    return starts[max(place, 0)][1]


_WRAP = 1 << 32
_MOST_GAP = 1 << 20  # a larger one is a restart
_MOST_LATE = 1 << 14  # units that a datagram comes late by, at most
_MOST_SCOPES = 1 << 14


@dataclass
class Sequences:
    """The next number of each exporter, and what is missing, by the address of the exporter."""

    lost: Counter[bytes] = field(default_factory=Counter)
    _next: dict[Scope, int | None] = field(default_factory=dict)

    def saw(self, scope: Scope, number: int, units: int | None) -> None:
        """Take note of a datagram with so many units; None if they cannot be counted."""
        if scope not in self._next and len(self._next) >= _MOST_SCOPES:
            return
        expected = self._next.get(scope)
        gap = None if expected is None else (number - expected) % _WRAP
        if gap is not None and gap >= _WRAP - _MOST_LATE:
            self.lost[scope[0]] -= min(units or 0, self.lost[scope[0]])
            return
        if gap is not None and gap <= _MOST_GAP:
            self.lost[scope[0]] += gap
        self._next[scope] = None if units is None else (number + units) % _WRAP


@dataclass
class ExporterMemory:
    """What a reader of several files carries over.

    Attributes
    ----------
    ahead_ns : by how much the clock of each exporter was ahead where its last datagram came [ns].
    """

    starts: Starts = field(default_factory=Starts)
    sequences: Sequences = field(default_factory=Sequences)
    ahead_ns: dict[bytes, int] = field(default_factory=dict)

    def compare(self, exporter: bytes, sent_ns: int, arrival_ns: int) -> None:
        """Take note of when a datagram was sent by its exporter's clock, and when it came."""
        if exporter in self.ahead_ns or len(self.ahead_ns) < _MOST_SCOPES:
            self.ahead_ns[exporter] = sent_ns - arrival_ns

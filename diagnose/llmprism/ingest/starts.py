"""When exporters started: what times count from that are given in ms since then.

- An exporter may tell its start, in options (field 160); the last ones before a record hold.
- Version 9 tells the wall clock in whole seconds beside the uptime. The start lies at or after
  "wall clock minus uptime" of each datagram, and the largest of these is closest.
- Datagrams that were captured have times of arrival: the start lies at or before "arrival minus
  uptime" of each, and the smallest of these is closer, if it fits the wall clock's seconds.
- IPFIX without field 160 shows bounds only: no flow ends after its export, so the start lies at
  or before "export minus end of the flow" of each record. The smallest is taken: durations and
  distances are exact, the whole may be early or late by the time that records wait for export.

An exporter that restarts, or sets its clock, is a new one from there on.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from llmprism.ingest.bounds import EARLIEST_NS, as_int64, wall_clock_ns
from llmprism.ingest.exports import Moment, Records, Scope
from llmprism.ingest.notes import Notes

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
        """The start: from arrivals if their clock agrees with the exporter's, or that is unset."""
        if self.earliest_ns < EARLIEST_NS:
            return self.latest_ns or 0
        if self.latest_ns is None:
            return self.earliest_ns
        agrees = -_SLACK_NS <= self.latest_ns - self.earliest_ns <= _SECOND_NS
        return self.latest_ns if agrees else self.earliest_ns


def needs_start(records: Records) -> bool:
    """Whether times of records count from a start that they do not tell themselves."""
    columns = records.columns.keys()
    return {"21", "22"} <= columns and "160" not in columns


@dataclass
class Starts:
    """Starts that a file shows, in the order of its datagrams."""

    _announced: dict[Scope, list[tuple[int, int]]] = field(default_factory=dict)
    _bounds: dict[Scope, list[_Bounds]] = field(default_factory=dict)
    _latest: dict[Scope, list[tuple[int, int]]] = field(default_factory=dict)

    def learn(self, records: Records) -> None:
        """Take what records, of flows or of options, and their datagram show."""
        scope, moment = records.scope, records.moment
        if records.is_options and "160" in records.columns:
            starts, bad = wall_clock_ns(records.columns["160"], MS_NS)
            for start_ns in starts[~bad].tolist():
                self._announced.setdefault(scope, []).append((moment.number, start_ns))
        if moment.uptime_ms is not None and scope[1] == 9:
            self._narrow(scope, moment, moment.uptime_ms * MS_NS)
        elif scope[1] == 10 and needs_start(records):
            self._bound(records)

    def of(self, records: Records, notes: Notes) -> int | None:
        """Return the start [ns] of the records' exporter; None if it is unknown or not needed."""
        scope, number = records.scope, records.moment.number
        if not needs_start(records):
            return None
        if scope in self._announced:
            return _last(self._announced[scope], number)
        if scope in self._bounds:
            bounds = self._bounds[scope]
            return _last([(one.number, one.start_ns) for one in bounds], number)
        if scope in self._latest:
            notes.remark(ESTIMATED)
            return _last(self._latest[scope], number)
        return None

    @property
    def has_restarts(self) -> bool:
        """Whether an exporter started more than once."""
        starts = [len(each) for each in self._bounds.values()]
        return max([*starts, *(len(each) for each in self._latest.values())], default=0) > 1

    def _narrow(self, scope: Scope, moment: Moment, uptime_ns: int) -> None:
        earliest = moment.clock_ns - uptime_ns
        latest = None if moment.arrival_ns is None else moment.arrival_ns - uptime_ns
        known = self._bounds.setdefault(scope, [])
        if known and abs(earliest - known[-1].earliest_ns) <= _SAME_START_NS:
            known[-1].narrow(earliest, latest)
        else:  # a restart, or the uptime wrapped
            known.append(_Bounds(moment.number, earliest, latest))

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
            known.append((records.moment.number, latest))


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

"""One flow, seen at several observation points: counted once, and its path known.

Two records are of the same transmission if they have the same addresses, ports, protocol and
queue pair, come from *different* observation points, and overlap in time. The record of the
point that saw the flow first is kept, and the points that saw it, in order of time, are its
path. A retransmission is seen again at the *same* point, so it is never taken for this. Where
the first point lost a record, that of another point is kept.

Points that sample see different packets of a flow, so their records need not overlap. Each
gives an estimate of the whole flow: only the first point's are kept.

What their clocks differ by is measured on the way (:mod:`llmprism.ingest.clocks`).

Where no column names the observation points, times and counts show that there are two
(:class:`Repetitions`). An exporter has one record at a time for each set of addresses and ports:
two of its records never overlap. Records of one connection with equal counts, which begin and end
together and overlap for at least half of their time, are therefore the sight of two exporters: the
first is kept, so that volumes are counted once. A few that agree in their times as well were
exported twice; they are left to the diagnosis, which sets them aside. Single packets last no time;
they are taken for repetitions once lasting records have shown that there are two exporters, and how
much later the second one is. Records that overlap and differ are left, and remarked on if they are
many. Records that name their exporter are of that one alone, so none of them repeats another,
however coarse its times are: nfcapd has those of NetFlow v9 to a second only.

Either way, records without ports are left as they are: connections in parallel would look the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.clocks import ClockOffsets, clock_error_ns
from llmprism.ingest.records import SCHEMA
from llmprism.ingest.sightings import Sightings
from llmprism.ingest.windows import MOST_POINTS, Window, codes, decide, numbered
from llmprism.io.clock import clock_tick_ns
from llmprism.io.notes import Notes
from llmprism.numerics.arrays import Bools, Ints

SEEN_TWICE = "record of a flow that another observation point counted"
WITHOUT_PORTS = "records of several observation points without ports: some may count twice"
_HOLD_NS = 2_000_000_000  # how much later another point's record may start
_KEY = ("src", "dst", "src_port", "dst_port", "protocol", "dst_qp")
_TCP = 6
_PORTLESS = (0, 1, 2, 41, 47, 50, 51, 58, 89, 103, 112)  # ICMP, GRE, OSPF and others
_MOST_FLOWS = 1 << 18  # whose points are known
REPEATED = "record of a transmission that another exporter recorded as well"
TWO_EXPORTERS = (
    "no column names the exporters, and records repeat: two of them saw the same traffic, which is "
    "counted once; --map observer=COLUMN tells them apart"
)
OVERLAPPING = (
    "records of one connection overlap, as those of one exporter never do: traffic may count "
    "twice; --map observer=COLUMN tells exporters apart"
)
_CONNECTION = ("src", "dst", "observer", "src_port", "dst_port", "protocol", "dst_qp")
_COUNTS = ("bytes", "packets")
_FINE_NS = 1_000  # tick of a clock: packets of one connection differ in time
_MANY = 0.1  # share of records
_FEWEST = 20  # records; an exporter may send a few of them twice
_MIXER = 0x9E3779B97F4A7C15  # the odd number that Fibonacci hashing multiplies by


@dataclass
class SeveralPoints:
    """Joins what several observation points recorded; batches go through in order of time.

    Attributes
    ----------
    tolerance_ns : how far apart the clocks of points may be [ns].
    homes : the switch of each address, where it is known: a path begins and ends there, also if
        clocks are too coarse to show the order.
    """

    tolerance_ns: int
    notes: Notes
    homes: Mapping[str, str] = field(default_factory=dict)
    _kept: pa.Table = field(default_factory=SCHEMA.empty_table)  # handed on, may cover later ones
    _ranks: dict[tuple[Any, ...], tuple[str, ...]] = field(default_factory=dict)  # points by flow
    _orders: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)  # many are alike
    _clocks: ClockOffsets = field(default_factory=ClockOffsets)

    def join(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the batches with every transmission once."""
        waiting = SCHEMA.empty_table()
        for table in batches:
            waiting = pa.concat_tables([waiting, table])
            limit = int(table["start_ns"][-1].as_py()) - _HOLD_NS
            ready = pc.sum(pc.less_equal(waiting["start_ns"], limit)).as_py() or 0
            if 2 * ready >= waiting.num_rows:
                yield self._joined(waiting, ready)
                waiting = waiting.slice(ready)
        if waiting.num_rows:
            yield self._joined(waiting, waiting.num_rows)
        error = clock_error_ns(self._clocks.differences_ns())
        self.notes.clock_error_ns = None if error is None else round(error)

    def _joined(self, table: pa.Table, ready: int) -> pa.Table:
        """Return the first ``ready`` records without those of flows counted elsewhere."""
        everything = pa.concat_tables([self._kept, table])
        before = self._kept.num_rows
        window = self._window(everything, before)
        keep = decide(window, self.tolerance_ns)
        sightings = Sightings.of(window, keep, everything, self.tolerance_ns)
        sightings.compare_clocks(self._clocks)
        paths = sightings.paths(everything["path"], self.homes)
        now = np.zeros(everything.num_rows, dtype=np.bool_)
        now[before : before + ready] = True
        self.notes.drop(SEEN_TWICE, int(np.count_nonzero(now & ~keep)))
        rows = everything.set_column(SCHEMA.get_field_index("path"), SCHEMA.field("path"), paths)
        result = rows.filter(pa.array(now & keep))
        since = int(everything["start_ns"][before + ready - 1].as_py()) - _HOLD_NS
        recent = (window.end >= since) & keep & (window.fixed | now)
        self._kept = everything.filter(pa.array(recent))
        self._forget()
        return result

    def _window(self, table: pa.Table, before: int) -> Window:
        bare = table["src_port"].is_null().to_numpy() | table["dst_port"].is_null().to_numpy()
        has_none = np.isin(pc.fill_null(table["protocol"], _TCP).to_numpy(), _PORTLESS)
        if (bare & ~has_none)[before:].any():
            self.notes.remark(WITHOUT_PORTS)
        alone = np.where(bare, np.arange(bare.size), -1)  # each record is a flow of its own
        flow, _ = numbered(*(codes(table[name]) for name in _KEY), alone)
        point = codes(table["observer"])
        return Window(
            flow,
            self._ranked(table, flow, point, bare),
            point,
            table["start_ns"].to_numpy(),
            table["end_ns"].to_numpy(),
            pc.fill_null(pc.greater(table["sampling"], 1), False).to_numpy(),
            np.arange(flow.size) < before,
        )

    def _ranked(self, table: pa.Table, flow: Ints, point: Ints, bare: Bools) -> Ints:
        """Return the rank of each record's point within its flow, stable over windows."""
        number, firsts = numbered(flow, point)
        rank = np.zeros(firsts.size, dtype=np.int64)
        shared = np.flatnonzero(~bare[firsts])
        named = table.select([*_KEY, "observer"]).take(pa.array(firsts[shared]))
        *keys, observers = (column.to_pylist() for column in named.columns)
        rank[shared] = [
            self._rank(key, observer or "")
            for key, observer in zip(zip(*keys, strict=True), observers, strict=True)
        ]
        found: Ints = rank[number]
        return found

    def _rank(self, key: tuple[Any, ...], point: str) -> int:
        """Return the rank of a point among those that saw a flow; a new point comes last."""
        known = self._ranks.get(key, ())
        if point not in known:
            longer = (*known, point)
            known = self._ranks[key] = self._orders.setdefault(longer, longer)
        return min(known.index(point), MOST_POINTS)

    def _forget(self) -> None:
        """Forget the flows known longest if there are many; a flow's points are learned again."""
        while len(self._ranks) > _MOST_FLOWS:
            del self._ranks[next(iter(self._ranks))]


@dataclass
class Repetitions:
    """Takes repetitions out of batches in order of time.

    Attributes
    ----------
    tolerance_ns : how far apart the clocks of two exporters may be [ns].
    """

    tolerance_ns: int
    notes: Notes
    _late_ns: int = -1  # of the second exporter, at most; -1: there is none
    _tick_ns: int = 0
    _overlapping: int = 0
    _records: int = 0

    def without(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the batches with every transmission once."""
        recent = SCHEMA.empty_table()
        for table in batches:
            everything = pa.concat_tables([recent, table])
            repeats = self._repeats(everything)
            fresh = repeats[recent.num_rows :]
            self.notes.drop(REPEATED, int(np.count_nonzero(fresh)))
            self._records += table.num_rows
            yield table.filter(pa.array(~fresh)) if fresh.any() else table
            since = int(table["start_ns"][-1].as_py()) - self.tolerance_ns
            is_recent = everything["start_ns"].to_numpy() >= since
            recent = everything.filter(pa.array(is_recent & ~repeats))
        if self._late_ns >= 0:
            self.notes.remark(TWO_EXPORTERS)
        if self._overlapping > _MANY * self._records:
            self.notes.remark(OVERLAPPING)

    def _repeats(self, table: pa.Table) -> Bools:
        """Mark the records that repeat the one of their connection before them."""
        start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
        self._tick_ns = self._tick_ns or clock_tick_ns(start, end)
        before, after = _neighbours(table)
        late = start[after] - start[before]
        lasts = np.maximum(end[after] - start[after], end[before] - start[before])
        overlap = np.minimum(end[before], end[after]) - start[after]
        near = np.maximum(late, np.abs(end[after] - end[before])) <= self.tolerance_ns
        near &= np.logical_and(*(_equal(table, name, before, after) for name in _COUNTS))
        found = near & (2 * overlap >= lasts) & (overlap > self._tick_ns)
        is_named = self._are_named(table)[after]
        found &= ~is_named
        if not self._are_two(found, found & (late == 0) & (end[after] == end[before])):
            found[:] = False
        self._late_ns = max(self._late_ns, int(late[found].max(initial=-1)))
        if self._tick_ns <= _FINE_NS:
            found |= near & (lasts == 0) & (late <= self._late_ns) & ~is_named
        overlapping = (overlap > self._tick_ns) & ~found & ~is_named
        self._overlapping += int(np.count_nonzero(overlapping))
        repeats = np.zeros(len(table), dtype=np.bool_)
        repeats[after[found]] = True
        return repeats

    def _are_named(self, table: pa.Table) -> Bools:
        """Mark the records that name their exporter: so they are all of one, and none repeats."""
        known = pa.array(sorted(self.notes.named_points), pa.string())
        found: Bools = pc.is_in(table["observer"], value_set=known).to_numpy()
        return found

    def _are_two(self, found: Bools, exact: Bools) -> bool:
        """Whether repetitions are of two exporters, and not of a few records sent twice."""
        is_later = bool((found & ~exact).any())
        enough = max(_FEWEST, _MANY * found.size)
        return self._late_ns >= 0 or is_later or int(np.count_nonzero(exact)) >= enough


def _neighbours(table: pa.Table) -> tuple[Ints, Ints]:
    """Return the rows that follow each other in time, among those of one connection."""
    columns = [_numbers(table, name) for name in _CONNECTION]
    ports = (table[name].is_valid().to_numpy() for name in ("src_port", "dst_port"))
    rows = np.flatnonzero(np.logical_and(*ports))
    order = rows[np.argsort(_mixed(columns)[rows], kind="stable")]
    before, after = order[:-1], order[1:]
    same = np.ones(before.size, dtype=np.bool_)
    for column in columns:
        same &= column[after] == column[before]
    return before[same], after[same]


def _equal(table: pa.Table, name: str, before: Ints, after: Ints) -> Bools:
    column = _numbers(table, name)
    equal: Bools = column[before] == column[after]
    return equal


def _numbers(table: pa.Table, name: str) -> Ints:
    """Return a column as numbers: equal ones for equal values."""
    column = table[name]
    if pa.types.is_string(column.type):
        column = column.combine_chunks().dictionary_encode().indices
    numbers: Ints = pc.fill_null(column, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _mixed(columns: list[Ints]) -> Ints:
    """Return one number for each row: equal rows have equal ones, others hardly ever."""
    mixed = np.zeros(columns[0].size, dtype=np.uint64)
    for column in columns:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(_MIXER)
        mixed ^= mixed >> np.uint64(29)
    return mixed.astype(np.int64)

"""One flow, seen at several observation points: counted once, and its path known.

Two records are of the same transmission if they have the same addresses, ports, protocol and
queue pair, come from *different* observation points, and overlap in time. The record of the
point that saw the flow first is kept, and the points that saw it, in order of time, are its
path. A retransmission is seen again at the *same* point, so it is never taken for this. Where
the first point lost a record, that of another point is kept.

Points that sample see different packets of a flow, so their records need not overlap. Each
gives an estimate of the whole flow: only the first point's are kept.

Records without ports are left as they are: connections in parallel would look the same.

What their clocks differ by is measured on the way (:mod:`llmprism.ingest.clocks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.clocks import ClockOffsets, clock_error_ns
from llmprism.ingest.notes import Notes
from llmprism.ingest.records import SCHEMA
from llmprism.ingest.sightings import Sightings
from llmprism.ingest.windows import MOST_POINTS, Window, codes, decide, numbered
from llmprism.numerics.arrays import Bools, Ints

SEEN_TWICE = "record of a flow that another observation point counted"
WITHOUT_PORTS = "records of several observation points without ports: some may count twice"
_HOLD_NS = 2_000_000_000  # how much later another point's record may start
_KEY = ("src", "dst", "src_port", "dst_port", "protocol", "dst_qp")
_TCP = 6
_PORTLESS = (0, 1, 2, 41, 47, 50, 51, 58, 89, 103, 112)  # ICMP, GRE, OSPF and others
_MOST_FLOWS = 1 << 18  # whose points are known


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

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
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.clocks import ClockOffsets, clock_error_ns
from llmprism.ingest.notes import Notes
from llmprism.ingest.records import SCHEMA
from llmprism.numerics.arrays import Bools, Floats, Ints

EGRESS = "#egress"
"""Ends the name of a point whose records are those of packets that leave the switch."""
SEEN_TWICE = "record of a flow that another observation point counted"
WITHOUT_PORTS = "records of several observation points without ports: some may count twice"
_HOLD_NS = 2_000_000_000  # how much later another point's record may start
_KEY = ("src", "dst", "src_port", "dst_port", "protocol", "dst_qp")
_TCP = 6
_PORTLESS = (0, 1, 2, 41, 47, 50, 51, 58, 89, 103, 112)  # ICMP, GRE, OSPF and others
_MOST_POINTS = 62  # of one flow; a path in a data centre has five or so


@dataclass
class _Window:
    """Records of some time as arrays; ``rank`` numbers the points of a flow by first sight."""

    flow: Ints
    rank: Ints
    point: Ints
    start: Ints
    end: Ints
    sampled: Bools
    fixed: Bools  # handed on already


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
    _ranks: dict[tuple[Any, ...], dict[str, int]] = field(default_factory=dict)
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
        keep = _decide(window, self.tolerance_ns)
        paths = self._paths(window, keep, everything)
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

    def _window(self, table: pa.Table, before: int) -> _Window:
        point = _codes(table["observer"])
        frame = pd.DataFrame({name: _codes(table[name]) for name in _KEY})
        flow: Ints = frame.groupby(list(_KEY), sort=False).ngroup().to_numpy().astype(np.int64)
        bare = table["src_port"].is_null().to_numpy() | table["dst_port"].is_null().to_numpy()
        has_none = np.isin(pc.fill_null(table["protocol"], _TCP).to_numpy(), _PORTLESS)
        if (bare & ~has_none)[before:].any():
            self.notes.remark(WITHOUT_PORTS)
        alone = flow.max(initial=0) + 1 + np.arange(flow.size)
        flow = np.where(bare, alone, flow).astype(np.int64)
        sampled = pc.fill_null(pc.greater(table["sampling"], 1), False).to_numpy()
        return _Window(
            flow,
            self._ranked(table, flow, point),
            point,
            table["start_ns"].to_numpy(),
            table["end_ns"].to_numpy(),
            sampled,
            np.arange(flow.size) < before,
        )

    def _ranked(self, table: pa.Table, flow: Ints, point: Ints) -> Ints:
        """Return the rank of each record's point within its flow, stable over windows."""
        pairs = pd.DataFrame({"flow": flow, "point": point})
        firsts = np.flatnonzero(~pairs.duplicated().to_numpy())
        named = table.take(pa.array(firsts)).select([*_KEY, "observer"]).to_pylist()
        rank: dict[tuple[int, int], int] = {}
        for row, names in zip(firsts.tolist(), named, strict=True):
            known = self._ranks.setdefault(tuple(names[name] for name in _KEY), {})
            place = known.setdefault(names["observer"] or "", len(known))
            rank[int(flow[row]), int(point[row])] = min(place, _MOST_POINTS)
        number, _ = pd.factorize(pd.MultiIndex.from_frame(pairs))
        order = [rank[int(flow[row]), int(point[row])] for row in firsts.tolist()]
        return np.array(order, dtype=np.int64)[number] if order else np.empty(0, dtype=np.int64)

    def _forget(self) -> None:
        """Forget the flows known longest if there are many; a flow's points are learned again."""
        while len(self._ranks) > 1 << 20:
            del self._ranks[next(iter(self._ranks))]

    def _paths(self, window: _Window, keep: Bools, table: pa.Table) -> pa.Array:
        """Return the path of each record: the points with a record that overlaps, by time."""
        known = table["path"].to_pylist()
        names = pd.factorize(table["observer"].to_pandas())[1].tolist()
        sources, targets = table["src"], table["dst"]
        offsets = _offsets(window, self.tolerance_ns)
        seen = np.isfinite(offsets)
        mask = (seen @ (1 << np.arange(seen.shape[1], dtype=np.int64))).astype(np.int64)
        rows = np.flatnonzero(keep)
        groups = pd.Series(rows).groupby([window.flow[rows], mask[rows]], sort=False)
        point_of = dict(
            zip(
                zip(window.flow.tolist(), window.rank.tolist(), strict=True),
                window.point.tolist(),
                strict=True,
            )
        )
        for _, members in groups:
            which = members.to_numpy()
            flow = int(window.flow[which[0]])
            ranks = np.flatnonzero(seen[which[0]])
            own = offsets[which][:, ranks]
            mean = own.mean(axis=0)
            ends = (sources[int(which[0])].as_py(), targets[int(which[0])].as_py())
            self._compare_clocks([names[point_of[flow, int(rank)]] for rank in ranks], ends, own)
            points = [point_of[flow, int(ranks[i])] for i in np.argsort(mean, kind="stable")]
            seen_at = [names[point] for point in points if point >= 0]
            path = _joined_names(seen_at, *(self.homes.get(end) for end in ends))
            for row in which.tolist():
                known[row] = known[row] or path
        return pa.array(known, pa.string())

    def _compare_clocks(self, points: list[str], ends: tuple[str, str], offsets: Floats) -> None:
        """Keep how much later each point saw a flow's records than the first of them."""
        late = (offsets[:, 1:] - offsets[:, :1]).T.tolist()
        for name, each in zip(points[1:], late, strict=True):
            self._clocks.add((points[0], name), ends, each)


def _joined_names(names: list[str], first: str | None, last: str | None) -> str | None:
    """Return a path; a switch that exports arriving and leaving packets is named once."""
    plain = list(dict.fromkeys(name.removesuffix(EGRESS) for name in names if name))
    plain.sort(key=lambda name: (name == last) - (name == first) if first != last else 0)
    return "|".join(plain) or None


def _codes(column: pa.ChunkedArray) -> Ints:
    codes: Ints = np.asarray(pd.factorize(column.to_pandas())[0], dtype=np.int64)
    return codes


def _decide(window: _Window, tolerance: int) -> Bools:
    """Mark the records to keep: of each transmission, that of the point with the least rank."""
    keep: Bools = window.fixed | (window.rank == 0)
    for rank in range(1, int(window.rank.max(initial=0)) + 1):
        mine = (window.rank == rank) & ~window.fixed
        covered = np.isfinite(_lags(window, keep, mine, tolerance))
        flows = np.unique(window.flow[keep])
        covered |= window.sampled[mine] & np.isin(window.flow[mine], flows)
        keep[np.flatnonzero(mine)[~covered]] = True
    return keep


def _offsets(window: _Window, tolerance: int) -> Floats:
    """Return how much later than a record each point saw its flow, by rank; NaN: it did not."""
    ranks = int(window.rank.max(initial=0)) + 1
    everything = np.ones(window.flow.size, dtype=np.bool_)
    columns = [_lags(window, window.rank == rank, everything, tolerance) for rank in range(ranks)]
    return np.stack(columns, axis=1)


def _lags(window: _Window, those: Bools, mine: Bools, tolerance: int) -> Floats:
    """Return how much later the nearest of ``those`` starts, for each of ``mine``.

    NaN where none of the same flow overlaps.
    """
    rows, asked = np.flatnonzero(those), np.flatnonzero(mine)
    if not rows.size or not asked.size:
        return np.full(asked.size, np.nan)
    rows = rows[np.lexsort((window.start[rows], window.flow[rows]))]
    flow, start = window.flow[rows], window.start[rows]
    until = pd.Series(window.end[rows]).groupby(flow).cummax().to_numpy()
    its_flow, its_start = window.flow[asked], window.start[asked]
    last = _last(flow, start, its_flow, window.end[asked] + tolerance)
    overlaps = (last >= 0) & (flow[last] == its_flow)
    overlaps &= until[last] >= its_start - tolerance
    near = _last(flow, start, its_flow, its_start + tolerance)
    near = np.where((near >= 0) & (flow[near] == its_flow), near, near + 1)
    lag = (start[np.minimum(near, rows.size - 1)] - its_start).astype(np.float64)
    return np.where(overlaps, lag, np.nan)


def _last(flow: Ints, time: Ints, its_flow: Ints, its_time: Ints) -> Ints:
    """Return the place of the last (flow, time) at or before each asked one; -1 for none."""
    moments, order = np.unique(np.concatenate([time, its_time]), return_inverse=True)
    count = np.int64(moments.size)
    keys, wanted = flow * count + order[: time.size], its_flow * count + order[time.size :]
    found: Ints = np.searchsorted(keys, wanted, side="right") - 1
    return found

"""Which observation points saw the records that are kept, and how much later than the first.

Records of one flow that the same points saw form a group. The points of a group, in order of
time, are its path; how late they are shows what their clocks differ by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.clocks import MOST_OFFSETS, ClockOffsets
from llmprism.ingest.windows import Window, codes, numbered, offsets_ns
from llmprism.numerics.arrays import Bools, Floats, Ints

EGRESS = "#egress"
"""Ends the name of a point whose records are those of packets that leave the switch."""
_NONE = -1  # in place of a point: it did not see the group


@dataclass(frozen=True)
class Sightings:
    """Groups of kept records, and the points that saw them.

    Attributes
    ----------
    rows : the kept records, as rows of the window.
    group : the group of each kept record; groups are numbered by first appearance.
    late_ns : how much later each point saw a kept record, by rank; NaN: it did not.
    points : the point of each group and rank; -1 where it did not see the group.
    names : of points.
    src, dst : addresses of each group.
    """

    rows: Ints
    group: Ints
    late_ns: Floats
    points: Ints
    names: list[str]
    src: pa.ChunkedArray
    dst: pa.ChunkedArray

    @classmethod
    def of(cls, window: Window, keep: Bools, table: pa.Table, tolerance_ns: int) -> Sightings:
        """Return what the points saw of the records to ``keep``."""
        rows = np.flatnonzero(keep)
        late_ns = offsets_ns(window, tolerance_ns)[rows]
        seen = np.isfinite(late_ns)
        mask = seen @ (1 << np.arange(seen.shape[1], dtype=np.int64))
        group, firsts = numbered(window.flow[rows], mask)
        point_of = np.full((window.flow.max(initial=0) + 1, seen.shape[1]), _NONE, dtype=np.int64)
        point_of[window.flow, window.rank] = window.point
        points = np.where(seen[firsts], point_of[window.flow[rows[firsts]]], _NONE)
        names = pd.factorize(table["observer"].to_pandas())[1].tolist()
        ends = table.select(["src", "dst"]).take(pa.array(rows[firsts]))
        return cls(rows, group, late_ns, points, names, ends["src"], ends["dst"])

    def paths(self, recorded: pa.ChunkedArray, homes: Mapping[str, str]) -> pa.ChunkedArray:
        """Return the path of each record of the window: as recorded, or else the points by time.

        ``homes`` has the switch of each address, where it is known.
        """
        points = np.take_along_axis(self.points, self._order_of_time(), axis=1)
        first, firsts = _homes(self.src, homes)
        last, lasts = _homes(self.dst, homes)
        number, examples = numbered(*points.T, first, last)
        names = np.full(examples.size, None, dtype=object)
        for place, one in enumerate(examples.tolist()):  # few: most groups have another's path
            seen_at = [self.names[point] for point in points[one].tolist() if point != _NONE]
            names[place] = _joined_names(seen_at, firsts[first[one]], lasts[last[one]])
        found = np.full(len(recorded), None, dtype=object)
        found[self.rows] = names[number][self.group]
        given = pc.if_else(pc.equal(recorded, ""), None, recorded)
        return pc.coalesce(given, pa.array(found, pa.string()))

    def _order_of_time(self) -> Ints:
        """Return the ranks of each group, in the order in which the points saw it."""
        count = np.bincount(self.group, minlength=len(self.points))
        sums = [
            np.bincount(self.group, weights=late, minlength=len(self.points))
            for late in self.late_ns.T
        ]
        order: Ints = np.argsort(np.stack(sums, axis=1) / count[:, None], axis=1, kind="stable")
        return order

    def compare_clocks(self, clocks: ClockOffsets) -> None:
        """Add how much later each point saw a group's records than the first of its points."""
        src, dst = codes(self.src), codes(self.dst)
        first_rank = np.argmax(self.points != _NONE, axis=1)
        record = np.argsort(self.group, kind="stable")  # a group's records together
        is_later = self.points != _NONE
        is_later[np.arange(first_rank.size), first_rank] = False
        place, rank = np.nonzero(is_later[self.group[record]])
        record = record[place]
        group = self.group[record]
        first, later = self.points[group, first_rank[group]], self.points[group, rank]
        late_ns = self.late_ns[record, rank] - self.late_ns[record, first_rank[group]]
        pair, examples = numbered(first, later, src[group], dst[group])
        for one, some in zip(examples.tolist(), _of_each(pair, late_ns), strict=True):
            points = (self.names[first[one]], self.names[later[one]])
            ends = (self.src[int(group[one])].as_py(), self.dst[int(group[one])].as_py())
            clocks.add(points, ends, some)


def _of_each(number: Ints, values: Floats) -> Iterator[list[float]]:
    """Yield the first values of each number, as many as clocks are compared by."""
    order = np.argsort(number, kind="stable")
    count = np.bincount(number)
    start = np.cumsum(count) - count
    for first, last in zip(start, start + np.minimum(count, MOST_OFFSETS), strict=True):
        yield values[order[first:last]].tolist()


def _homes(addresses: pa.ChunkedArray, homes: Mapping[str, str]) -> tuple[Ints, list[str | None]]:
    """Return the switches of addresses, and for each address which of them it is."""
    names = [homes.get(one) for one in addresses.unique().to_pylist()]
    switches = list(dict.fromkeys(names))
    which = np.array([switches.index(name) for name in names], dtype=np.int64)
    return which[codes(addresses)], switches


def _joined_names(names: list[str], first: str | None, last: str | None) -> str | None:
    """Return a path; a switch that exports arriving and leaving packets is named once."""
    plain = list(dict.fromkeys(name.removesuffix(EGRESS) for name in names if name))
    plain.sort(key=lambda name: (name == last) - (name == first) if first != last else 0)
    return "|".join(plain) or None

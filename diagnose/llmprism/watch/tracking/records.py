"""Records as numbers: the lane of each, when it ends, and its bytes.

A *lane* is a pair of addresses as one observation point sees it. So traffic that several points
see has a lane at each of them, and one of these counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.numerics.arrays import Bools, Codes, Ints

MOST_POINTS = 1 << 12
COLUMNS = ["src", "dst", "observer", "end_ns", "bytes"]


@dataclass(frozen=True)
class Records:
    """Arrays of shape (records,); times in [ns], volumes in [bytes]."""

    lane: Ints
    end_ns: Ints
    bytes: Ints

    def __len__(self) -> int:
        return int(self.lane.size)

    def where(self, mask: Bools) -> Records:
        """The records of a mask."""
        return Records(self.lane[mask], self.end_ns[mask], self.bytes[mask])

    def take(self, order: Codes | Ints | slice) -> Records:
        """The records in an order."""
        return Records(self.lane[order], self.end_ns[order], self.bytes[order])


def joined(parts: Sequence[Records]) -> Records:
    """All records of several parts."""
    none = np.zeros(0, np.int64)
    every = [Records(none, none, none), *parts]
    return Records(
        np.concatenate([one.lane for one in every]),
        np.concatenate([one.end_ns for one in every]),
        np.concatenate([one.bytes for one in every]),
    )


@dataclass
class Numbers:
    """The numbers of addresses and of observation points."""

    addresses: Sequence[str]
    _points: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = pa.array(self.addresses, pa.string())

    def of(self, table: pa.Table) -> Records:
        """The records of a table between known addresses."""
        src, dst = self._codes(table["src"]), self._codes(table["dst"])
        lane = self.pair(src, dst) * MOST_POINTS + self._observers(table["observer"])
        every = Records(lane, table["end_ns"].to_numpy(), table["bytes"].to_numpy())
        known = (src >= 0) & (dst >= 0)
        return every if known.all() else every.where(known)

    def pair(self, src: Ints, dst: Ints) -> Ints:
        """One number for a pair of addresses."""
        return src * len(self.addresses) + dst

    def pairs(self, src: Sequence[str], dst: Sequence[str]) -> Ints:
        """The same for pairs of names."""
        return self.pair(*(self.codes(names) for names in (src, dst)))

    def codes(self, names: Sequence[str]) -> Ints:
        """The numbers of addresses."""
        return self._codes(pa.chunked_array([pa.array(names, pa.string())]))

    def sources(self, lane: Ints) -> Codes:
        """The sender of each lane."""
        return (lane // (MOST_POINTS * len(self.addresses))).astype(np.int32)

    def targets(self, lane: Ints) -> Codes:
        """The receiver of each lane."""
        return (lane // MOST_POINTS % len(self.addresses)).astype(np.int32)

    def _codes(self, column: pa.ChunkedArray) -> Ints:
        found = pc.index_in(column, value_set=self._names).fill_null(-1)
        return np.asarray(found.to_numpy(), np.int64)

    def _observers(self, column: pa.ChunkedArray) -> Ints:
        coded = column.combine_chunks().dictionary_encode()
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.combine_chunks()
        numbers = [
            self._points.setdefault(str(name), len(self._points)) % MOST_POINTS
            for name in coded.dictionary.to_pylist()
        ]
        none = self._points.setdefault("", len(self._points))
        codes = coded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
        points: Ints = np.array([*numbers, none], np.int64)[codes]
        return points

"""Rows that belong together, without moving them: the one grouping all stages share.

A table of flows is kept in one order (by start) and never copied. To walk through the flows
of a pair, an address or a path, rows are *grouped*: ``order`` lists the row numbers group
after group, each group in table order, and ``offsets`` says where each group begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmprism.compiled import compiled

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Grouped:
    """Row numbers sorted by group, stable.

    Attributes
    ----------
    order : row numbers, shape (rows,).
    offsets : group g is ``order[offsets[g]:offsets[g + 1]]``, shape (groups + 1,).
    """

    order: Ints
    offsets: Ints

    @property
    def sizes(self) -> Ints:
        """Rows of each group, shape (groups,)."""
        return np.diff(self.offsets)

    @property
    def codes(self) -> Ints:
        """Group of each entry of ``order``, shape (rows,)."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def rows(self, group: int) -> Ints:
        """Row numbers of one group, in table order."""
        return self.order[self.offsets[group] : self.offsets[group + 1]]


def grouped(codes: NDArray[Any], groups: int) -> Grouped:
    """Group rows by ``codes`` (shape (rows,), values in [0, groups)); linear in time.

    >>> by = grouped(np.array([1, 0, 1]), 2)
    >>> by.order, by.offsets
    (array([1, 0, 2]), array([0, 1, 3]))
    """
    order, offsets = _counting_sort(np.ascontiguousarray(codes, dtype=np.int32), groups)
    return Grouped(order, offsets)


@compiled
def _counting_sort(codes: Codes, groups: int) -> tuple[Ints, Ints]:
    offsets = np.zeros(groups + 1, dtype=np.int64)
    for code in codes:
        offsets[code + 1] += 1
    for g in range(groups):
        offsets[g + 1] += offsets[g]
    ahead = offsets[:-1].copy()
    order = np.empty(codes.size, dtype=np.int64)
    for row in range(codes.size):
        order[ahead[codes[row]]] = row
        ahead[codes[row]] += 1
    return order, offsets


def runs_of(flags: Bools, breaks: Bools) -> list[tuple[int, int]]:
    """Return (first, last) of every unbroken stretch of True.

    Parameters
    ----------
    flags : shape (n,).
    breaks : shape (n,), True where a new stretch begins even if the one before is True.

    >>> runs_of(np.array([1, 1, 0, 1, 1], bool), np.array([1, 0, 0, 0, 1], bool))
    [(0, 1), (3, 3), (4, 4)]
    """
    before = np.concatenate(([False], flags[:-1]))
    after = np.concatenate((flags[1:], [False]))
    apart = np.concatenate((breaks[1:], [True]))
    first = np.flatnonzero(flags & (~before | breaks))
    last = np.flatnonzero(flags & (~after | apart))
    return list(zip(first.tolist(), last.tolist(), strict=True))

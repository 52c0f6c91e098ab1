"""Grouping of rows without moving them; all stages use it.

A table of flows is kept in one order (by start) and never copied. To process the flows
of a pair, an address or a path, rows are *grouped*: ``order`` lists the row numbers group
by group, each group in table order, and ``offsets`` gives the start of each group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import compile_early

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


def order_in_groups(group: NDArray[Any], value: NDArray[Any]) -> Ints:
    """Order of rows by group, then by value, then by row; both of shape (rows,).

    What ``np.lexsort((value, group))`` returns. Groups are numbers from 0 on. Linear in time where
    values are in order already, as the times of records usually are.

    >>> order_in_groups(np.array([1, 0, 1]), np.array([5, 7, 3]))
    array([1, 2, 0])
    """
    groups = int(group.max(initial=-1)) + 1
    if groups > 2 * group.size + 1000:
        return np.lexsort((value, group))
    if (value[1:] >= value[:-1]).all():
        return grouped(group, groups).order
    by_value = np.argsort(value, kind="stable")
    return by_value[grouped(group[by_value], groups).order]


@compiled
def _counting_sort(codes: Codes, groups: int) -> tuple[Ints, Ints]:
    ahead = np.zeros(groups + 1, dtype=np.int64)
    for i in range(codes.size):
        ahead[codes[i] + 1] += 1
    offsets = np.zeros(groups + 1, dtype=np.int64)
    for g in range(groups):
        ahead[g + 1] += ahead[g]
        offsets[g + 1] = ahead[g + 1]
    order = np.empty(codes.size, dtype=np.int64)
    for i in range(codes.size):
        order[ahead[codes[i]]] = i
        ahead[codes[i]] += 1
    return order, offsets


compile_early(_counting_sort, lambda: (np.zeros(0, np.int32), 0))

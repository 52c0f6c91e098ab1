"""Grouping of rows without moving them; all stages use it.

A table of flows is kept in one order (by start) and never copied. To process the flows
of a pair, an address or a path, rows are *grouped*: ``order`` lists the row numbers group
by group, each group in table order, and ``offsets`` gives the start of each group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Array = NDArray[Any]

INTS: Ints = np.empty(0, np.int64)
CODES: Codes = np.empty(0, np.int32)

PART_BYTES = 1 << 23  # of an array that is worked on in parts


@dataclass(frozen=True)
class Grouped:
    """Row numbers sorted by group, stable.

    Attributes
    ----------
    order : row numbers (below 2^31), shape (rows,).
    offsets : group g is ``order[offsets[g]:offsets[g + 1]]``, shape (groups + 1,).
    """

    order: Codes
    offsets: Ints

    @property
    def sizes(self) -> Ints:
        """Rows of each group, shape (groups,)."""
        return np.diff(self.offsets)

    @property
    def codes(self) -> Ints:
        """Group of each entry of ``order``, shape (rows,)."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def rows(self, group: int) -> Codes:
        """Row numbers of one group, in table order."""
        return self.order[self.offsets[group] : self.offsets[group + 1]]


def grouped(codes: NDArray[Any], groups: int) -> Grouped:
    """Group rows by ``codes`` (shape (rows,), values in [0, groups)); linear in time.

    >>> by = grouped(np.array([1, 0, 1]), 2)
    >>> by.order, by.offsets
    (array([1, 0, 2], dtype=int32), array([0, 1, 3]))
    """
    order, offsets = _counting_sort(np.ascontiguousarray(codes, dtype=np.int32), groups)
    return Grouped(order, offsets)


def latest_in_groups(group: NDArray[Any], value: Ints) -> Ints:
    """The largest value so far in the same group; both of shape (rows,), rows in order of groups.

    >>> latest_in_groups(np.array([0, 0, 0, 4, 4]), np.array([5, 9, 7, 2, 3]))
    array([5, 9, 9, 2, 3])
    """
    if not value.size:
        return value
    opens = np.concatenate(([True], group[1:] != group[:-1]))
    number = np.cumsum(opens) - 1
    offset = value - value[opens][number]  # small, so that the sums below stay in 64 bits
    shift = number * (int(np.ptp(offset)) + 1)
    latest: Ints = np.maximum.accumulate(offset + shift) - shift + value[opens][number]
    return latest


def before_in_groups(group: NDArray[Any], value: NDArray[Any]) -> Floats:
    """The sum of the values before each one in its group; groups are in order.

    >>> before_in_groups(np.array([0, 0, 3]), np.array([2, 5, 7]))
    array([0., 2., 0.])
    """
    before = np.cumsum(value, dtype=np.float64) - value
    within: Floats = before - before[np.searchsorted(group, group)]
    return within


def order_in_groups(group: NDArray[Any], value: NDArray[Any]) -> Ints | Codes:
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


def weighted_quantile(cell: Ints, values: Array, weight: Array, share: float) -> tuple[Ints, Array]:
    """Cells that have weight, and in each the value below which ``share`` of the weight lies."""
    cell, values, weight = cell[weight > 0], values[weight > 0], weight[weight > 0]
    order = order_in_groups(cell, values)
    cell, values, weight = cell[order], values[order], weight[order]
    opens = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0))) if cell.size else cell
    sums = np.cumsum(weight)
    before = sums[opens] - weight[opens]
    total = np.diff(np.append(before, sums[-1:]))
    at = np.searchsorted(sums, before + share * total)
    return cell[opens], values[np.minimum(at, values.size - 1)]


def quantile_by_weight(values: Array, weights: Array, share: float) -> float:
    """The least of the ``values`` up to which ``share`` of the weight is; some weight is above 0.

    >>> quantile_by_weight(np.array([3, 1, 2]), np.array([1, 1, 2]), 0.5)
    2.0
    """
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order], dtype=np.float64)
    return float(values[order][np.searchsorted(sums, share * sums[-1])])


def by_parts(
    function: Callable[[Array], Array], values: Array, part_bytes: int = PART_BYTES
) -> Array:
    """What ``function`` returns of ``values``, given a part of the first axis at a time.

    For functions that work on each entry of that axis by itself, and take several times the
    memory of what they are given. They may leave out entries.

    >>> by_parts(np.sqrt, np.array([4.0, 9.0]))
    array([2., 3.])
    """
    parts = np.array_split(values, max(1, min(values.nbytes // part_bytes, len(values))))
    found = function(parts[0])
    if len(parts) == 1:
        return found
    every = np.empty((len(values), *found.shape[1:]), found.dtype)
    every[: len(found)] = found
    done = len(found)
    for part in parts[1:]:
        found = function(part)
        every[done : done + len(found)] = found
        done += len(found)
    return every[:done]


@compiled
def _counting_sort(codes: Codes, groups: int) -> tuple[Codes, Ints]:
    ahead = np.zeros(groups + 1, dtype=np.int64)
    for i in range(codes.size):
        ahead[codes[i] + 1] += 1
    offsets = np.zeros(groups + 1, dtype=np.int64)
    for g in range(groups):
        ahead[g + 1] += ahead[g]
        offsets[g + 1] = ahead[g + 1]
    order = np.empty(codes.size, dtype=np.int32)
    for i in range(codes.size):
        order[ahead[codes[i]]] = i
        ahead[codes[i]] += 1
    return order, offsets

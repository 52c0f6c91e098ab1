"""What a number or a time of a record may be: one place for all readers.

*Counts* are whole numbers of at most 2^61: a sum or a difference of two fits 64 bits, so that no
arithmetic on what passed here overflows. 2^61 bytes are more than a link of 800 Gbit/s carries in
half a year.

*Instants* are ns since 1970 within the same limit, which is in January 2043. Those of a *wall
clock* are from 1990 on: exporters of flows are younger than that, so that an earlier time is one
that nobody set. Exporters and collectors write 0 for it.

What is impossible becomes null (:func:`column`); the screening counts a record that lacks what it
needs, and sets it aside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from llmprism.numerics.arrays import Array, Bools, Ints

LARGEST = 2**61
"""Of a count, or of an instant [ns] before or after 1970."""
LONGEST_TEXT = 1024
"""Characters of an address or a path: more is none, and is not kept."""
EARLIEST_NS = 631_152_000 * 1_000_000_000
"""1990-01-01T00:00:00Z: the first instant of a wall clock."""


def as_int64(values: ArrayLike) -> tuple[Ints, Bools]:
    """Return counts, and which of them are none: missing, not finite, or beyond 2^61.

    ``values`` are integers of any width, floats, or Python numbers of any size with None.
    The count of a bad value is 0; a float is rounded.

    >>> as_int64(np.array([1500, 2**63], dtype=np.uint64))
    (array([1500,    0]), array([False,  True]))
    >>> as_int64([7, None, 10**30])
    (array([7, 0, 0]), array([False,  True,  True]))
    """
    found = values if isinstance(values, np.ndarray) else np.array(values, dtype=np.object_)
    if found.dtype == np.object_:
        return _of_objects(found)
    if found.dtype.kind == "u":
        bad = found.astype(np.uint64) > np.uint64(LARGEST)
    elif found.dtype.kind == "f":
        bad = ~(np.abs(found) <= LARGEST)  # NaN as well
    else:
        bad = (found < -LARGEST) | (found > LARGEST)
    kept = np.where(bad, 0, np.rint(found) if found.dtype.kind == "f" else found)
    return kept.astype(np.int64), bad


def _of_objects(values: Array) -> tuple[Ints, Bools]:
    exact = [_exact(one) for one in values.tolist()]
    bad = np.array([one is None for one in exact], dtype=np.bool_)
    return np.array([one or 0 for one in exact], dtype=np.int64), bad


def _exact(value: Any) -> int | None:
    try:
        whole = round(value)
    except (TypeError, ValueError, OverflowError):  # None, NaN, infinity
        return None
    return whole if abs(whole) <= LARGEST else None


def epoch_ns(values: ArrayLike, unit_ns: int) -> tuple[Ints, Bools]:
    """Return instants [ns] from numbers of a unit, and which are beyond what they may be.

    Times may count from any start, so that 0 is one of them; :func:`wall_clock_ns` is stricter.

    >>> epoch_ns([2, 10**12], 1_000_000_000)
    (array([2000000000,          0]), array([False,  True]))
    """
    counts, bad = as_int64(values)
    limit = LARGEST // unit_ns
    bad = bad | (counts > limit) | (counts < -limit)
    return np.where(bad, 0, counts) * unit_ns, bad


def wall_clock_ns(values: ArrayLike, unit_ns: int) -> tuple[Ints, Bools]:
    """Return instants [ns] of a clock that is set; 0 and all before 1990 are none.

    >>> wall_clock_ns(np.array([0, 1_700_000_000], dtype=np.uint32), 1_000_000_000)
    (array([                  0, 1700000000000000000]), array([ True, False]))
    """
    instants, bad = epoch_ns(values, unit_ns)
    bad = bad | (instants < EARLIEST_NS)
    return np.where(bad, 0, instants), bad


def column(values: Ints, bad: Bools) -> pa.Array:
    """Return values as a column that is null where they are bad."""
    return pa.array(values, mask=bad)

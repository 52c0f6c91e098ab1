"""The oldest open record of a switch: a binary heap of (begin, record).

Entries stay in the heap when their record ends, or when an earlier start becomes known. The code
that takes an entry checks whether it is still valid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled_part

ENTRY = np.dtype([("start_ns", "i8"), ("key", "i8")])

Heap = NDArray[np.void]
"""Entries; the first is the oldest, and of equally old ones that with the lower key."""


@compiled_part
def push(heap: Heap, n: int, start_ns: int, key: int) -> int:
    """Add an entry to ``n`` others; returns the new number of entries."""
    at = n
    while at > 0:
        above = (at - 1) // 2
        if not _is_before(start_ns, key, heap[above]["start_ns"], heap[above]["key"]):
            break
        heap[at] = heap[above]
        at = above
    heap[at]["start_ns"] = start_ns
    heap[at]["key"] = key
    return n + 1


@compiled_part
def drop(heap: Heap, n: int) -> int:
    """Remove the first entry; returns the number of entries left."""
    n -= 1
    start_ns, key = heap[n]["start_ns"], heap[n]["key"]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= n:
            break
        if below + 1 < n and _is_before(
            heap[below + 1]["start_ns"], heap[below + 1]["key"],
            heap[below]["start_ns"], heap[below]["key"],
        ):  # fmt: skip
            below += 1
        if not _is_before(heap[below]["start_ns"], heap[below]["key"], start_ns, key):
            break
        heap[at] = heap[below]
        at = below
    heap[at]["start_ns"] = start_ns
    heap[at]["key"] = key
    return n


@compiled_part
def _is_before(start_ns: int, key: int, other_ns: int, other: int) -> bool:
    return start_ns < other_ns or (start_ns == other_ns and key < other)

"""The oldest open record of a switch: a binary heap of (begin, record).

Entries are not taken out when their record ends or begins earlier than was known. Whoever takes
one from the heap checks that it still holds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmprism.numerics.compiled import compiled

ENTRY = np.dtype([("start_ns", "i8"), ("key", "i8")])

Heap = NDArray[np.void]
"""Entries, the first of them the oldest; of equal ones that with the lower key."""


@compiled
def push(heap: Heap, n: int, start_ns: int, key: int) -> int:
    """Add an entry to the ``n`` there are; returns how many there are now."""
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


@compiled
def drop(heap: Heap, n: int) -> int:
    """Take the first entry out; returns how many are left."""
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


@compiled
def _is_before(start_ns: int, key: int, other_ns: int, other: int) -> bool:
    return start_ns < other_ns or (start_ns == other_ns and key < other)

"""Cutting records as a switch does: by silence, by age, and by a full table.

A switch does not see messages. It opens a record with the first packet of a 5-tuple, adds to it,
and exports it after a silence of more than the idle gap, when it is older than the active
timeout (the next record then begins with the next packet), or, oldest first, when its table
is full. A transfer cut by age is shared in proportion to time; one cut by a full table belongs
to the record that was open when it started.

Open records are carried from batch to batch, one for each 5-tuple and observation point.
Trains are reported when their collective has ended, so a silent record stays open for
:data:`HORIZON_NS` longer: an earlier train may still be reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled, compiled_part
from prism_sim.cluster.state import grown
from prism_sim.collector.config import CollectorConfig
from prism_sim.collector.delay import HORIZON_NS
from prism_sim.collector.rows import ROW, Rows
from prism_sim.collector.scene import Scene

NO_LIMIT = 2**62


class Cutter:
    """Turns transfers into records.

    Parameters
    ----------
    model : the limits that cut records.
    scene : the identities of records.
    """

    def __init__(self, model: CollectorConfig, scene: Scene) -> None:
        self._scene = scene
        scene.holders.append(self)
        self._merge = not model.message_boundary
        self._gap_ns = round(model.idle_gap_us * 1e3)
        timeout_s = model.active_timeout_s
        self._timeout_ns = NO_LIMIT if timeout_s is None else max(1, round(timeout_s * 1e9))
        self._limit = NO_LIMIT if model.cache_entries is None else model.cache_entries
        self._state = np.zeros(1024, ROW)
        self._open = np.zeros(1024, np.bool_)
        self._load = np.zeros(len(scene.tuples.router.layout.leaves) + 1, np.int64)
        self._newest_ns = 0

    def __len__(self) -> int:
        return int(self._open.sum())

    def cut(self, rows: Rows, last: bool) -> Rows:
        """Records that are finished after ``rows`` were added; all of them if ``last``."""
        rows = rows[np.lexsort((rows["end_ns"], rows["tuple"], rows["start_ns"]))]
        key = rows["tuple"].astype(np.int64) * 2 + rows["point"]
        while len(rows) and key.max() >= len(self._state):
            self._state = grown(self._state, 2 * len(self._state))
            self._open = grown(self._open, len(self._state))
        room = 3 * len(rows) + int(((rows["end_ns"] - rows["start_ns"]) // self._timeout_ns).sum())
        parts: list[Any] = [slice(None)]
        if self._limit < NO_LIMIT:  # each switch has a table of its own
            parts = [np.flatnonzero(rows["exporter"] == at) for at in np.unique(rows["exporter"])]
        out = np.empty(room, ROW)
        n = 0
        for part in parts:
            n = cut_rows(
                rows[part], key[part], self._state, self._open, self._load, self._gap_ns,
                self._timeout_ns, self._limit, self._merge, out, n, *self._by_age(rows[part], room),
            )  # fmt: skip
        self._newest_ns = max(self._newest_ns, int(rows["end_ns"].max()) if len(rows) else 0)
        done = np.concatenate([out[:n], self._silent(last)])
        done["arrival_ns"] = done["end_ns"]
        done["id"] = self._scene.identity(done)
        return done

    def _by_age(self, rows: Rows, room: int) -> tuple[Heap, int]:
        """A heap of the open records of the switch that exports ``rows``, if its table can fill."""
        if self._limit == NO_LIMIT or not len(rows):
            return np.empty(0, ENTRY), 0
        is_own = self._open & (self._state["exporter"] == rows["exporter"][0])
        keys = np.flatnonzero(is_own)
        heap = np.empty(len(keys) + len(rows) + room, ENTRY)
        order = np.argsort(self._state["start_ns"][keys], kind="stable")
        heap["start_ns"][: len(keys)] = self._state["start_ns"][keys][order]
        heap["key"][: len(keys)] = keys[order]
        return heap, len(keys)

    def _silent(self, last: bool) -> Rows:
        """Remove records that have been silent for so long that nothing can be added to them."""
        patience_ns = self._gap_ns + HORIZON_NS
        over = self._open & (last | (self._state["end_ns"] + patience_ns < self._newest_ns))
        self._open[over] = False
        np.subtract.at(self._load, self._state["exporter"][over], 1)
        rows: Rows = self._state[over]
        return rows


@compiled
def cut_rows(
    rows: Rows,
    key: NDArray[np.int64],
    state: Rows,
    is_open: NDArray[np.bool_],
    load: NDArray[np.int64],
    gap_ns: int,
    timeout_ns: int,
    limit: int,
    merge: bool,
    out: Rows,
    n: int,
    heap: Heap,
    n_heap: int,
) -> int:
    """Add ``rows``, in order of start, to the open records; returns how many are in ``out``.

    With a ``limit``, all ``rows`` are of one switch, and ``heap`` has its open records by age.
    """
    for i in range(len(rows)):
        k, row = key[i], rows[i]
        start, end = row["start_ns"], row["end_ns"]
        left, payload, packets = row["bytes"], row["payload"], row["packets"]
        if is_open[k] and start - state[k]["end_ns"] > gap_ns:
            n = _export(k, state, is_open, load, out, n)
        if is_open[k] and start >= state[k]["start_ns"] + timeout_ns:
            n = _export(k, state, is_open, load, out, n)
        while True:
            if not is_open[k]:
                if load[row["exporter"]] >= limit:
                    n_heap = _to_oldest(state, is_open, heap, n_heap)
                    n = _export(heap[0]["key"], state, is_open, load, out, n)
                _begin(k, row, start, state, is_open, load)
                if limit < NO_LIMIT:
                    n_heap = push(heap, n_heap, start, k)
            due = state[k]["start_ns"] + timeout_ns
            if end <= due or start >= due:
                break
            share = (due - start) / (end - start)
            some, some_payload, some_packets = (
                int(left * share), int(payload * share), int(packets * share),
            )  # fmt: skip
            _add(k, due, some, some_payload, some_packets, state)
            left, payload, packets = left - some, payload - some_payload, packets - some_packets
            start = due
            n = _export(k, state, is_open, load, out, n)
        if start < state[k]["start_ns"]:
            state[k]["start_ns"] = start
            if limit < NO_LIMIT:
                n_heap = push(heap, n_heap, start, k)
        _add(k, end, left, payload, packets, state)
        if not merge:
            n = _export(k, state, is_open, load, out, n)
    return n


@compiled_part
def _begin(
    k: int, row: Rows, start_ns: int, state: Rows, is_open: NDArray[np.bool_],
    load: NDArray[np.int64],
) -> None:  # fmt: skip
    state[k] = row
    state[k]["start_ns"] = start_ns
    state[k]["end_ns"] = start_ns
    state[k]["bytes"] = 0
    state[k]["payload"] = 0
    state[k]["packets"] = 0
    is_open[k] = True
    load[row["exporter"]] += 1


@compiled_part
def _add(k: int, end_ns: int, size: int, payload: int, packets: int, state: Rows) -> None:
    state[k]["end_ns"] = max(state[k]["end_ns"], end_ns)
    state[k]["bytes"] += size
    state[k]["payload"] += payload
    state[k]["packets"] += packets


@compiled_part
def _export(
    k: int, state: Rows, is_open: NDArray[np.bool_], load: NDArray[np.int64], out: Rows, n: int
) -> int:
    out[n] = state[k]
    is_open[k] = False
    load[state[k]["exporter"]] -= 1
    return n + 1


@compiled_part
def _to_oldest(state: Rows, is_open: NDArray[np.bool_], heap: Heap, n_heap: int) -> int:
    """Drop outdated entries; the first is then the oldest open record."""
    while not is_open[heap[0]["key"]] or state[heap[0]["key"]]["start_ns"] != heap[0]["start_ns"]:
        n_heap = drop(heap, n_heap)
    return n_heap


# The oldest open record of a switch: a binary heap of (begin, record).
#
# Entries stay in the heap when their record ends, or when an earlier start becomes known. The code
# that takes an entry checks whether it is still valid.

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

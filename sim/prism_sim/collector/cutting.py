"""Records cut as a switch cuts them: by silence, by age, and for want of room.

A switch knows no messages. It opens a record with the first packet of a 5-tuple, adds to it, and
exports it after a silence of more than the idle gap, when it is older than the active
timeout (the next record then begins with the next packet), or, oldest first, when its table
is full. A transfer cut by age is shared in proportion to time; one cut for want of room
goes to the record that it began in.

What is open is carried from batch to batch, one record a 5-tuple and place of observation.
Trains are handed over when their collective has ended, so a record that has fallen silent
stays open for a while longer, in case something older is still to come.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmprism.numerics.compiled import compiled
from prism_sim.cluster.state import grown
from prism_sim.collector.config import Collector as CollectorModel
from prism_sim.collector.effects.base import Scene
from prism_sim.collector.rows import SEEN, Rows

HORIZON_NS = 10_000_000_000
"""How long a silent record waits for transfers that are reported late: 10 s."""
NO_LIMIT = 2**62


class Cutter:
    """Turns transfers into records.

    Parameters
    ----------
    model : what cuts records.
    scene : knows the identity of records.
    """

    def __init__(self, model: CollectorModel, scene: Scene) -> None:
        self._scene = scene
        self._merge = not model.message_boundary
        self._gap_ns = round(model.idle_gap_us * 1e3)
        timeout_s = model.active_timeout_s
        self._timeout_ns = NO_LIMIT if timeout_s is None else max(1, round(timeout_s * 1e9))
        self._limit = NO_LIMIT if model.cache_entries is None else model.cache_entries
        self._state = np.zeros(1024, SEEN)
        self._open = np.zeros(1024, np.bool_)
        self._load = np.zeros(len(scene.tuples.router.layout.leaves) + 1, np.int64)
        self._newest_ns = 0

    def cut(self, rows: Rows, last: bool) -> Rows:
        """Records that are finished now that ``rows`` have come; all of them if ``last``."""
        rows = rows[np.lexsort((rows["end_ns"], rows["tuple"], rows["start_ns"]))]
        key = rows["tuple"].astype(np.int64) * 2 + rows["point"]
        while len(rows) and key.max() >= len(self._state):
            self._state = grown(self._state, 2 * len(self._state))
            self._open = grown(self._open, len(self._state))
        room = 3 * len(rows) + int(((rows["end_ns"] - rows["start_ns"]) // self._timeout_ns).sum())
        out = np.empty(room, SEEN)
        n = cut_rows(
            rows, key, self._state, self._open, self._load, self._gap_ns, self._timeout_ns,
            self._limit, self._merge, out,
        )  # fmt: skip
        self._newest_ns = max(self._newest_ns, int(rows["end_ns"].max()) if len(rows) else 0)
        done = np.concatenate([out[:n], self._silent(last)])
        done["arrival_ns"] = done["end_ns"]
        done["id"] = self._scene.identity(done)
        return done

    def _silent(self, last: bool) -> Rows:
        """Take out what has been silent for so long that nothing can be added to it."""
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
) -> int:
    """Add ``rows``, in order of start, to the open records; returns how many are in ``out``."""
    n = 0
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
                    n = _export(
                        _oldest(row["exporter"], state, is_open), state, is_open, load, out, n
                    )
                _begin(k, row, start, state, is_open, load)
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
        state[k]["start_ns"] = min(state[k]["start_ns"], start)
        _add(k, end, left, payload, packets, state)
        if not merge:
            n = _export(k, state, is_open, load, out, n)
    return n


@compiled
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


@compiled
def _add(k: int, end_ns: int, size: int, payload: int, packets: int, state: Rows) -> None:
    state[k]["end_ns"] = max(state[k]["end_ns"], end_ns)
    state[k]["bytes"] += size
    state[k]["payload"] += payload
    state[k]["packets"] += packets


@compiled
def _export(
    k: int, state: Rows, is_open: NDArray[np.bool_], load: NDArray[np.int64], out: Rows, n: int
) -> int:
    out[n] = state[k]
    is_open[k] = False
    load[state[k]["exporter"]] -= 1
    return n + 1


@compiled
def _oldest(exporter: int, state: Rows, is_open: NDArray[np.bool_]) -> int:
    """The open record of ``exporter`` that began first."""
    best = -1
    for k in range(len(state)):
        if not is_open[k] or state[k]["exporter"] != exporter:
            continue
        if best < 0 or state[k]["start_ns"] < state[best]["start_ns"]:
            best = k
    return best

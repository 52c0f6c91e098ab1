"""The fabric as the ranks see it: hand it bytes and a route, wait for an event.

SimPy keeps the time; :mod:`prism_sim.cluster.core` works out rates on arrays. What starts,
ends or changes within one instant is gathered and solved once, at the end of that instant.
Control comes back to Python only when a *batch* is complete: all flows of one message
of a tensor-parallel group, say, or a ring collective.

A batch is *over* when its last byte has left, and its event fires one latency later, when
that byte has arrived. Records of single flows are kept here until :meth:`Fabric.drain`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.clock import END_OF_INSTANT, Clock
from prism_sim.cluster import core

Over = Callable[[int, int], int]
"""Told when a batch began and ended [ns]; answers how long its last byte travels [ns]."""


class Templates:
    """Which links an entity uses, how often; shared by all entities of one route or ring.

    A template is a row of a compressed sparse table. ``shown`` is the route its records
    carry, or -1 if the fabric is to keep no record (what stays in a server, and rings,
    whose records are written hop by hop by the collective).
    """

    def __init__(self) -> None:
        self.ptr = np.zeros(1024, np.int64)
        self.via = np.zeros(4096, core.USES)
        self.shown = np.full(1024, -1, np.int32)
        self.count = 0

    def add(self, links: Sequence[int], weights: Sequence[float] | None = None) -> int:
        """Register the links of one entity, merging repeated ones; returns its number."""
        at, place = np.unique(np.asarray(links, np.int32), return_inverse=True)
        weight = np.bincount(place, weights, minlength=len(at))
        self._reserve(len(at))
        begin = self.ptr[self.count]
        self.via["link"][begin : begin + len(at)] = at
        self.via["weight"][begin : begin + len(at)] = weight
        self.count += 1
        self.ptr[self.count] = begin + len(at)
        return self.count - 1

    def _reserve(self, uses: int) -> None:
        if self.count + 2 > len(self.ptr):
            self.ptr = _grown(self.ptr, 2 * len(self.ptr))
            self.shown = _grown(self.shown, 2 * len(self.shown), -1)
        needed = int(self.ptr[self.count]) + uses
        if needed > len(self.via):
            self.via = _grown(self.via, max(needed, 2 * len(self.via)))


class Fabric:
    """Links with capacities, shared max-min fairly by whatever moves at the moment.

    Parameters
    ----------
    env : the clock.
    capacity : bytes a nanosecond of each directed link, shape (links,).
    templates : see :class:`Templates`; may grow while the simulation runs.
    """

    def __init__(self, env: Clock, capacity: NDArray[np.float64], templates: Templates) -> None:
        self.env = env
        self.templates = templates
        self.link = np.zeros(len(capacity), core.LINK)
        self.link["capacity"] = capacity
        self.link["first"] = -1
        self._links = np.zeros(len(capacity), np.int32)
        self._touched = np.zeros(len(capacity), np.int32)
        self._n_touched = 0
        self.state = np.zeros(core.N_STATE, np.int64)
        self.state[core.MARK] = 1
        self.state[core.FREE_BLOCK :] = -1
        self.entity = np.zeros(0, core.ENTITY)
        self._start = np.zeros(1024, core.START)
        self._n_start = 0
        self._heap = np.zeros(0, np.int32)
        self.use = np.zeros(1 << 14, core.USE)
        self.batch = np.zeros(1024, core.BATCH)
        self._done = np.zeros(1024, np.int32)
        self._waiting: list[tuple[simpy.Event, int, Over | None]] = [_NOBODY] * 1024
        self._free_batches = list(range(1023, -1, -1))
        self.record = np.zeros(1 << 16, core.RECORD)
        self._flush_due = False
        self._wake_ns = core.NEVER
        self._grow_entities(1024)

    def transfer(
        self,
        templates: Sequence[int] | NDArray[np.int32],
        size_bytes: int,
        latency_ns: int,
        event: simpy.Event,
        over: Over | None = None,
        cap: float = np.inf,
    ) -> None:
        """Move ``size_bytes`` along each of ``templates`` from now on, as one batch.

        ``event`` fires ``latency_ns`` after the last of them has ended, plus what ``over``
        answers. ``cap`` bounds the rate of each [bytes/ns].
        """
        count = len(templates)
        if not self._free_batches:
            self._grow_batches()
        b = self._free_batches.pop()
        self._waiting[b] = (event, latency_ns, over)
        self.batch[b] = (self.env.now, self.env.now, count)
        begin, end = self._n_start, self._n_start + count
        if end > len(self._start):
            self._start = _grown(self._start, 2 * end)
        row = self._start[begin:end]
        row["template"] = templates
        row["bytes"] = size_bytes
        row["cap"] = cap
        row["batch"] = b
        self._n_start = end
        self._flush_soon()

    def set_capacity(self, link: int, bytes_per_ns: float) -> None:
        """Change what ``link`` can carry from this instant on [bytes/ns]."""
        self.link[link]["capacity"] = bytes_per_ns
        if self._n_touched == len(self._touched):
            self._touched = _grown(self._touched, 2 * len(self._touched))
        self._touched[self._n_touched] = link
        self._n_touched += 1
        self._flush_soon()

    def drain(self) -> NDArray[np.void]:
        """Hand over the records of single flows that ended since the last drain."""
        rows: NDArray[np.void] = self.record[: self.state[core.N_RECORDS]].copy()
        self.state[core.N_RECORDS] = 0
        return rows

    @property
    def records_waiting(self) -> int:
        return int(self.state[core.N_RECORDS])

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._flush_in(0)

    def _flush_in(self, delay_ns: int) -> None:
        flush = self.env.event()
        flush.callbacks = [self._flush]
        self.env.fire(flush, delay_ns, END_OF_INSTANT)

    def _flush(self, _: simpy.Event) -> None:
        """Solve this instant, tell who waited, and be back when the next entity ends."""
        now = self.env.now
        if not self._flush_due and now != self._wake_ns:
            return  # an appointment that an earlier end has overtaken
        self._flush_due = False
        self._make_room()
        t = self.templates
        next_ns = core.advance(
            self.entity, self.link, self.use, self.batch, self.record, self._heap, self._links,
            self._found, self._done, self.state, t.ptr, t.via, t.shown, self._start,
            self._n_start, self._touched, self._n_touched, now,
        )  # fmt: skip
        self._n_start = self._n_touched = 0
        for b in self._done[: self.state[core.N_DONE]].tolist():
            self._tell(b)
        if self._wake_ns <= now or next_ns < self._wake_ns:
            self._wake_ns = next_ns
            if next_ns < core.NEVER:
                self._flush_in(next_ns - now)

    def _tell(self, b: int) -> None:
        event, latency_ns, over = self._waiting[b]
        self._waiting[b] = _NOBODY
        self._free_batches.append(b)
        if over is not None:
            latency_ns += over(int(self.batch[b]["start_ns"]), int(self.batch[b]["end_ns"]))
        self.env.fire(event, latency_ns)

    def _make_room(self) -> None:
        """Grow the arrays so that the compiled step cannot run out of any."""
        active = int(self.state[core.N_HEAP]) + self._n_start
        if active > len(self.entity):
            self._grow_entities(2 * active)
        if self.records_waiting + active > len(self.record):
            self.record = _grown(self.record, 2 * (self.records_waiting + active))
        starting = self._start["template"][: self._n_start]
        sizes = self.templates.ptr[starting + 1] - self.templates.ptr[starting]
        needed = int(self.state[core.USED_USES]) + 2 * int(sizes.sum())
        if needed > len(self.use):
            self.use = _grown(self.use, 2 * needed)

    def _grow_entities(self, size: int) -> None:
        """Add places. The free list ends with the number of places, which is the first new one."""
        old = len(self.entity)
        self.entity = _grown(self.entity, size)
        self.entity["next"][old:] = np.arange(old + 1, size + 1)
        self._heap = _grown(self._heap, size)
        self._found = np.zeros(size, np.int32)

    def _grow_batches(self) -> None:
        old = len(self._waiting)
        self.batch = _grown(self.batch, 2 * old)
        self._done = np.zeros(2 * old, np.int32)
        self._waiting += [_NOBODY] * old
        self._free_batches = list(range(2 * old - 1, old - 1, -1))


_NOBODY: Any = (None, 0, None)


def _grown(array: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    larger = np.full(size, fill, array.dtype) if fill else np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger

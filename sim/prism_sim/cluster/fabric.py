"""The fabric as the ranks see it: hand it bytes and a route, wait for an event.

SimPy keeps the time; :mod:`prism_sim.cluster.core` works out rates on arrays. What starts,
ends or changes within one instant is gathered and solved once, at the end of that instant.
Control comes back to Python only when a *batch* is complete: all flows of one message
of a tensor-parallel group, say, or a ring collective.

A batch is *over* when its last byte has left, and its event fires one latency later, when
that byte has arrived. Records of single flows are kept here until :meth:`Fabric.drain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.clock import END_OF_INSTANT, Clock
from prism_sim.cluster import core
from prism_sim.cluster.state import NEVER, grown, new_net, with_places
from prism_sim.cluster.templates import Templates

Moved = Mapping[int, Sequence[int]]
"""The new links of routes that have moved, by number of the route."""

Over = Callable[[int, int], int]
"""Told when a batch began and ended [ns]; answers by how much its event is later still [ns]."""

_NOBODY: Any = (None, 0, None)


class Fabric:
    """Links with capacities, shared max-min fairly by whatever moves at the moment.

    Parameters
    ----------
    env : the clock.
    capacity : bytes a nanosecond of each directed link, shape (links,).
    templates : what entities may use; may grow while the simulation runs.

    Attributes
    ----------
    on_reroute : who wants to know when routes take other links.
    """

    def __init__(self, env: Clock, capacity: NDArray[np.float64], templates: Templates) -> None:
        self.env = env
        self.templates = templates
        self.on_reroute: list[Callable[[Moved], None]] = []
        self.net = new_net(capacity, templates.ptr, templates.via, places=1024, uses=1 << 14)
        self._start = np.zeros(1024, core.START)
        self._n_start = 0
        self._coming = self._uses_coming = 0
        self._touched = np.zeros(len(capacity), np.int32)
        self._n_touched = 0
        self._batch = np.zeros(1024, core.BATCH)
        self._done = np.zeros(1024, np.int32)
        self._waiting: list[tuple[simpy.Event, int, Over | None]] = [_NOBODY] * 1024
        self._free_batches = list(range(1023, -1, -1))
        self._record = np.zeros(1 << 16, core.RECORD)
        self._n_record = self._n_active = self._n_uses = 0
        self._flush_due = False
        self._wake_ns = NEVER

    def transfer(
        self,
        bundle: int,
        size_bytes: int,
        latency_ns: int,
        event: simpy.Event,
        over: Over | None = None,
        cap: float = np.inf,
    ) -> None:
        """Move ``size_bytes`` along each template of ``bundle`` from now on, as one batch.

        ``event`` fires ``latency_ns`` after the last of them has ended, plus what ``over``
        answers. ``cap`` bounds the rate of each [bytes/ns].
        """
        if not self._free_batches:
            self._grow_batches()
        batch = self._free_batches.pop()
        self._waiting[batch] = (event, latency_ns, over)
        if self._n_start == len(self._start):
            self._start = grown(self._start, 2 * self._n_start)
        self._start[self._n_start] = (size_bytes, cap, bundle, batch)
        self._n_start += 1
        self._coming += self.templates.bundle_size[bundle]
        self._uses_coming += self.templates.bundle_uses[bundle]
        self._flush_soon()

    def capacity_of(self, link: int) -> float:
        """What ``link`` can carry at present [bytes/ns]."""
        return float(self.net.link[link]["capacity"])

    def set_capacity(self, link: int, bytes_per_ns: float) -> None:
        """Change what ``link`` can carry from this instant on [bytes/ns]."""
        self.net.link[link]["capacity"] = bytes_per_ns
        if self._n_touched == len(self._touched):
            self._touched = grown(self._touched, 2 * len(self._touched))
        self._touched[self._n_touched] = link
        self._n_touched += 1
        self._flush_soon()

    def reroute(self, moved: Moved) -> None:
        """Tell whoever has links of his own that routes have ``moved``.

        What is under way stays where it is and ends there.
        """
        for tell in self.on_reroute:
            tell(moved)

    def drain(self) -> NDArray[np.void]:
        """Hand over the records of single flows that ended since the last drain."""
        rows: NDArray[np.void] = self._record[: self._n_record].copy()
        self._n_record = 0
        return rows

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._flush_in(0)

    def _flush_in(self, delay_ns: int) -> None:
        flush = simpy.Event(self.env)
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
        next_ns, self._n_record, n_done, self._n_active, self._n_uses = core.advance(
            self.net, self._start, self._n_start, t.bundle_ptr, t.bundle, self._touched,
            self._n_touched, t.shown, self._batch, self._record, self._n_record, self._done, now,
        )  # fmt: skip
        self._n_start = self._n_touched = self._coming = self._uses_coming = 0
        for b in self._done[:n_done].tolist():
            self._tell(b)
        if self._wake_ns <= now or next_ns < self._wake_ns:
            self._wake_ns = next_ns
            if next_ns < NEVER:
                self._flush_in(next_ns - now)

    def _tell(self, b: int) -> None:
        event, latency_ns, over = self._waiting[b]
        self._waiting[b] = _NOBODY
        self._free_batches.append(b)
        if over is not None:
            start_ns, end_ns, _ = self._batch[b].item()
            latency_ns += over(start_ns, end_ns)
        self.env.fire(event, latency_ns)

    def _make_room(self) -> None:
        """Grow the arrays so that the compiled step cannot run out of any."""
        net, t = self.net, self.templates
        if net.ptr is not t.ptr or net.via is not t.via:
            self.net = net = net._replace(ptr=t.ptr, via=t.via)
        active = self._n_active + self._coming
        if active > len(net.entity):
            self.net = net = with_places(net, 2 * active)
        if self._n_record + active > len(self._record):
            self._record = grown(self._record, 2 * (self._n_record + active))
        uses = self._n_uses + self._uses_coming
        if uses > len(net.use):
            self.net = net._replace(use=grown(net.use, 2 * uses))

    def _grow_batches(self) -> None:
        old = len(self._waiting)
        self._batch = grown(self._batch, 2 * old)
        self._done = np.zeros(2 * old, np.int32)
        self._waiting += [_NOBODY] * old
        self._free_batches = list(range(2 * old - 1, old - 1, -1))

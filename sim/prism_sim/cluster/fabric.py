"""The interface of the fabric for ranks: they give it bytes and a route, and wait for an event.

SimPy keeps the time, and :mod:`prism_sim.cluster.core` computes rates on arrays. All starts, ends
and changes of one instant are collected, and the rates are computed once, at the end of the
instant. Python code runs again only when a *batch* is complete: for example, all flows of one
message of a tensor-parallel group, or a ring collective.

A batch is *over* when its last byte has been sent. Its event fires one latency later, when this
byte has arrived. Records of single flows are kept here until :meth:`Fabric.drain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_common.compiled import Bound
from prism_sim.clock import END_OF_INSTANT, Clock
from prism_sim.cluster import core
from prism_sim.cluster.history import Spare, spare_of
from prism_sim.cluster.state import (
    HEAP_SIZE,
    NEVER,
    grown,
    new_net,
    with_places,
)
from prism_sim.cluster.templates import Templates

Moved = Mapping[int, Sequence[int]]
"""The new links of routes that have changed, by number of the route."""

Over = Callable[[int, int], int]
"""Called with the begin and end of a batch [ns]; returns the further delay of its event [ns]."""
CoupledOver = Callable[[int, int, int], int]
"""The same for a coupled entity, whose log is given to :func:`~prism_sim.cluster.pace.take_log`."""

Waiting = tuple[simpy.Event, int, Over | None, CoupledOver | None]
_NOBODY: Any = (None, 0, None, None)
_advance = Bound(core.advance)
STILL = 1e-6
"""Bytes per ns (1 kB/s) at which a flow sends no packet for a second or more: its link stopped."""


class Fabric:
    """Links with capacities, which the active flows and collectives share max-min fairly.

    Parameters
    ----------
    env : the clock.
    capacity : bytes per nanosecond of each directed link, shape (links,).
    templates : the link sets of entities; may grow while the simulation runs.
    bucket_bytes : size of the token bucket in front of each link, 0 for none; default: none.

    Attributes
    ----------
    on_reroute : called when the links of routes change.
    """

    def __init__(
        self,
        env: Clock,
        capacity: NDArray[np.float64],
        templates: Templates,
        bucket_bytes: NDArray[np.float64] | None = None,
    ) -> None:
        self.env = env
        self.templates = templates
        self.on_reroute: list[Callable[[Moved], None]] = []
        self._tables = templates.tables
        self.net = new_net(capacity, self._tables, places=1024, uses=1 << 14)
        if bucket_bytes is not None:
            self.net.link["bucket_bytes"] = self.net.link["tokens"] = bucket_bytes
        self._start = np.zeros(1024, core.START)
        self._n_start = 0
        self._coming = self._uses_coming = self._log_coming = 0
        self._touched = np.zeros(len(capacity), np.int32)
        self._n_touched = 0
        self._batch = np.zeros(1024, core.BATCH)
        self._done = np.zeros((1024, 4), np.int64)
        self._waiting: list[Waiting] = [_NOBODY] * 1024
        self._free_batches = list(range(1023, -1, -1))
        self._record = np.zeros(1 << 16, core.RECORD)
        self._n_record = self._n_active = self._n_uses = self._n_log = 0
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
        """Send ``size_bytes`` over each template of ``bundle`` from now on, as one batch.

        ``event`` fires ``latency_ns`` after the end of the last one, plus the delay that ``over``
        returns. ``cap`` limits the rate of each [bytes/ns].
        """
        self._start_batch(bundle, size_bytes, cap, (event, latency_ns, over, None))

    def move_coupled(
        self, bundle: int, size_bytes: int, event: simpy.Event, over: CoupledOver, cap: float
    ) -> None:
        """Send ``size_bytes`` over every hop of the one coupled template of ``bundle``.

        ``event`` fires at its end, plus the delay that ``over`` returns. ``over`` must read the
        entity's log.
        """
        self._start_batch(bundle, size_bytes, cap, (event, 0, None, over))

    def _start_batch(self, bundle: int, size_bytes: int, cap: float, waiting: Waiting) -> None:
        if not self._free_batches:
            self._grow_batches()
        batch = self._free_batches.pop()
        self._waiting[batch] = waiting
        if self._n_start == len(self._start):
            self._start = grown(self._start, 2 * self._n_start)
        self._start[self._n_start] = (size_bytes, cap, bundle, batch)
        self._n_start += 1
        self._coming += self.templates.bundle_size[bundle]
        self._uses_coming += self.templates.bundle_uses[bundle]
        self._log_coming += self.templates.bundle_log[bundle]
        self._flush_soon()

    def capacity_of(self, link: int) -> float:
        """Present capacity of ``link`` [bytes/ns]."""
        return float(self.net.link[link]["capacity"])

    def set_capacity(self, link: int, bytes_per_ns: float) -> None:
        """Set the capacity of ``link`` from this instant on [bytes/ns]."""
        self.net.link[link]["capacity"] = bytes_per_ns
        if self._n_touched == len(self._touched):
            self._touched = grown(self._touched, 2 * len(self._touched))
        self._touched[self._n_touched] = link
        self._n_touched += 1
        self._flush_soon()

    def reroute(self, moved: Moved) -> None:
        """Report changed routes (``moved``) to objects with their own list of links.

        Active entities keep their links to their end.
        """
        for listener in self.on_reroute:
            listener(moved)

    def spare(self, template: int) -> Spare:
        """Capacity that the links of each hop of ``template`` had left until now."""
        self._take_tables()
        return Spare(*spare_of(self.net, template, self.env.now))

    def drain(self) -> NDArray[np.void]:
        """Return the records of single flows that ended since the last call."""
        rows: NDArray[np.void] = self._record[: self._n_record].copy()
        self._n_record = 0
        return rows

    def unfinished(self) -> NDArray[np.void]:
        """Return a record of each single flow that is under way: what was sent until now.

        It ends with the last byte: a flow whose link stopped, when that happened.
        """
        net, now = self.net, self.env.now
        places = net.heap[: net.counters[HEAP_SIZE]]
        entity = net.entity[places]
        route = self.templates.shown[entity["template"]]
        rate = np.where(entity["rate"] > STILL, entity["rate"], 0.0)
        end_ns = np.where(rate > 0, now, entity["since_ns"])
        sent = entity["size_bytes"] - entity["left_bytes"] + rate * (now - entity["since_ns"])
        shown = (route >= 0) & (entity["hops"] == 0) & (sent >= 1) & (end_ns > entity["start_ns"])
        rows = np.zeros(int(shown.sum()), core.RECORD)
        rows["start_ns"], rows["end_ns"] = entity["start_ns"][shown], end_ns[shown]
        rows["bytes"], rows["route"] = sent[shown], route[shown]
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
        """Compute the rates, fire the events of complete batches, and schedule the next end."""
        now = self.env.now
        if not self._flush_due and now != self._wake_ns:
            return  # an earlier end has replaced this flush
        self._flush_due = False
        self._make_room()
        t = self.templates
        next_ns, self._n_record, n_done, self._n_active, self._n_uses, self._n_log = _advance(
            self.net, self._start, self._n_start, t.bundle_ptr, t.bundle, self._touched,
            self._n_touched, t.shown, self._batch, self._record, self._n_record, self._done, now,
        )  # fmt: skip
        self._n_start = self._n_touched = 0
        self._coming = self._uses_coming = self._log_coming = 0
        if n_done:
            for batch, start_ns, end_ns, log in self._done[:n_done].tolist():
                self._complete(batch, start_ns, end_ns, log)
        if self._wake_ns <= now or next_ns < self._wake_ns:
            self._wake_ns = next_ns
            if next_ns < NEVER:
                self._flush_in(next_ns - now)

    def _complete(self, batch: int, start_ns: int, end_ns: int, log: int) -> None:
        event, latency_ns, over, coupled_over = self._waiting[batch]
        self._waiting[batch] = _NOBODY
        self._free_batches.append(batch)
        if over is not None:
            latency_ns += over(start_ns, end_ns)
        if coupled_over is not None:
            latency_ns += coupled_over(start_ns, end_ns, log)
        self.env.fire(event, latency_ns)

    def _make_room(self) -> None:
        """Grow the arrays, so that each is large enough for the compiled step."""
        self._take_tables()
        net = self.net
        active = self._n_active + self._coming
        if active > len(net.entity):
            self.net = net = with_places(net, 2 * active)
        if self._n_record + active > len(self._record):
            self._record = grown(self._record, 2 * (self._n_record + active))
        uses = self._n_uses + self._uses_coming
        if uses > len(net.use):
            self.net = net = net._replace(use=grown(net.use, 2 * uses))
        in_logs = self._n_log + self._log_coming
        if in_logs > len(net.log):
            self.net = net._replace(log=grown(net.log, 2 * in_logs))

    def _take_tables(self) -> None:
        """Read the tables of the templates again, if larger ones have replaced them."""
        if self._tables is not self.templates.tables:
            self._tables = self.templates.tables
            self.net = self.net._replace(**self._tables._asdict())

    def _grow_batches(self) -> None:
        old = len(self._waiting)
        self._batch = grown(self._batch, 2 * old)
        self._done = np.zeros((2 * old, 4), np.int64)
        self._waiting += [_NOBODY] * old
        self._free_batches = list(range(2 * old - 1, old - 1, -1))

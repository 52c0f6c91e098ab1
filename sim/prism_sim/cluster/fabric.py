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
from struct import Struct
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_common.compiled import Bound
from prism_sim.clock import NEVER, Clock
from prism_sim.cluster import ahead, core
from prism_sim.cluster.choosing import choose_each, end_each, join_hops, release
from prism_sim.cluster.history import Spare, spare_of
from prism_sim.cluster.sequence_tables import SequenceTables, Stretch
from prism_sim.cluster.sequences import PYTHON, TURN
from prism_sim.cluster.state import HEAP_SIZE, USED_USES, Int32s, grown, new_net, with_places
from prism_sim.cluster.templates import Templates
from prism_sim.truth import CUT, LogRows

Moved = Mapping[int, Sequence[int]]
"""The new links of routes that have changed, by number of the route."""

Over = Callable[[int, int], int]
"""Called with the begin and end of a batch [ns]; returns the further delay of its event [ns]."""
CoupledOver = Callable[[int, int, int], int]
"""The same for a coupled entity, whose log is given to :func:`~prism_sim.cluster.pace.take_log`."""

Waiting = tuple[simpy.Event, int, Over | None, CoupledOver | None]
_NOBODY: Any = (None, 0, None, None)
_run_ahead, _play, _send = Bound(ahead.run_ahead), Bound(ahead.play), Bound(ahead.send)
_START = Struct("=qdii")
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
        self._capacity = np.array(capacity, float)
        self._edition = 0
        self._reserved: list[tuple[int, Int32s]] = []
        self.net = new_net(capacity, self._tables, places=1024, uses=1 << 14)
        if bucket_bytes is not None:
            self.net.link["bucket_bytes"] = self.net.link["tokens"] = bucket_bytes
        self._waiting: list[Waiting] = [_NOBODY] * 1024
        self._free_batches = list(range(1023, -1, -1))
        self._start = np.zeros(1024, core.START)
        self._touched = np.zeros(len(capacity), np.int32)
        self._record = np.zeros(1 << 16, core.RECORD)
        self._batch = np.zeros(1024, core.BATCH)
        self._done = np.zeros((1024, 4), np.int64)
        counts, at = np.zeros(8, np.int64), np.zeros(8, np.int64)
        self._counts, self._count = counts, counts.data
        self._at, self._at_view = at, at.data
        self._moves = self._present_moves()
        self.tables = SequenceTables()
        self._stretches: dict[int, Stretch] = {}
        self._arrivals: dict[int, simpy.Event] = {}
        self._write_log: Callable[[], None] = lambda: None
        self.next_ns = self.next_change_ns = NEVER
        env.ahead = self

    def log_into(self, rows: LogRows, write_piece: Callable[[], None]) -> None:
        """Log the spans of sequences into ``rows``; ``write_piece`` is called for a full piece."""
        self.tables.log_into(rows)
        self._write_log = write_piece

    def _present_moves(self) -> core.Moves:
        t = self.templates
        return core.Moves(
            self._start, self._touched, self._record, self._batch, self._done, self._counts,
            t.bundle_ptr, t.bundle, t.need, t.shown,
        )  # fmt: skip

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
        row = self._count[core.N_START]
        if row == len(self._start):
            self._start = grown(self._start, 2 * row)
            self._moves = self._moves._replace(start=self._start)
        _START.pack_into(self._start.data, row * _START.size, size_bytes, cap, bundle, batch)
        self._count[core.N_START] = row + 1
        self._change_now()

    def capacities(self) -> NDArray[np.float64]:
        """Present capacity of all links that entities use [bytes/ns].

        A link that stands for others has the limit that they all set.
        """
        self._take_tables()
        limits: NDArray[np.float64] = self.net.link["capacity"]
        return limits

    def set_capacity(self, link: int, bytes_per_ns: float) -> None:
        """Set the capacity of ``link`` from this instant on [bytes/ns]."""
        self._capacity[link] = bytes_per_ns
        self._limit(*self.templates.merging.limit_of(link, self._capacity))

    def _limit(self, link: int, bytes_per_ns: float) -> None:
        """Set the capacity of a link that entities use."""
        self.net.link[link]["capacity"] = bytes_per_ns
        touched = self._count[core.N_TOUCHED_LINKS]
        if touched == len(self._touched):
            self._touched = grown(self._touched, 2 * len(self._touched))
            self._moves = self._moves._replace(touched=self._touched)
        self._touched[touched] = link
        self._count[core.N_TOUCHED_LINKS] = touched + 1
        self._change_now()

    def choose_paths(self, hops: Int32s, coupled: int) -> Int32s:
        """The template that each of ``hops`` uses that begins now; ``coupled`` is to join them."""
        self._take_tables()
        chosen = choose_each(self.net, hops, self.env.now)
        self._reserved.append((self.env.now, chosen))
        join_hops(self.net, coupled, chosen)
        return chosen

    def leave_paths(self, chosen: Int32s) -> None:
        """Note that those ended whose templates :meth:`choose_paths` gave."""
        end_each(self.net, chosen, self.env.now)

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
        rows: NDArray[np.void] = self._record[: self._count[core.N_RECORD]].copy()
        self._count[core.N_RECORD] = 0
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
        rows["path"] = self.templates.path_numbers(entity["template"][shown])
        return rows

    def play(self, sequence: int, first: int, stop: int) -> Stretch | None:
        """Run the pieces from ``first`` to before ``stop`` of ``sequence``; returns their end.

        None if it stopped at once, because it is held.
        """
        row = self.tables.now.sequence[sequence]
        row["piece"], row["stop"] = first, stop
        return self.resume(sequence)

    def resume(self, sequence: int) -> Stretch | None:
        """Continue with the present piece of ``sequence``; see :meth:`play`."""
        tables, env = self.tables, self.env
        while True:
            tables.now.counts[TURN] = env.turn
            reason = _play(self._moves, tables.now, sequence, env.now)
            if reason != ahead.NO_ROOM:
                break
            self._make_room()
        env.turn = int(tables.now.counts[TURN])
        if reason == ahead.SEQUENCE_OVER:
            return None
        self.next_ns = min(self.next_ns, tables.first_event_ns)
        stretch = self._stretches[sequence] = Stretch(env, tables, sequence)
        return stretch

    def send(
        self,
        queue: int,
        mailbox: int,
        size_bytes: int,
        named: tuple[int, int, int, int] = (0, 0, -1, -1),
    ) -> None:
        """Send ``size_bytes`` on each flow of ``queue`` to a mailbox of its receiver.

        ``named`` has the step, the micro-batch, and the kinds of spans at sender and receiver (-1:
        not logged).
        """
        while True:
            arguments = self._moves, self.tables.now, self._at, queue, mailbox, size_bytes
            if _send(*arguments, named, self.env.now) != ahead.NO_ROOM:
                break
            self._make_room()
        if self._at_view[ahead.CHANGE_DUE]:
            self.next_change_ns = self.env.now

    def receive(self, mailbox: int) -> simpy.Event | None:
        """The arrival of the next message in ``mailbox``; None if it is there already."""
        tables = self.tables.now
        if tables.arrived[mailbox]:
            tables.arrived[mailbox] -= 1
            return None
        tables.waiter[mailbox] = PYTHON
        arrival = self._arrivals[mailbox] = simpy.Event(self.env)
        return arrival

    def stop(self, sequence: int) -> None:
        """Let ``sequence`` do nothing more; messages that it has sent arrive."""
        self.tables.stop(sequence)
        self._stretches.pop(sequence, None)

    def clear_queue(self, queue: int) -> None:
        """Drop the messages that wait in ``queue``."""
        ahead.clear_queue(self.tables.now, queue)

    def run_until(self, time_ns: int, turn: int) -> bool:
        """Run until the event of SimPy at ``time_ns`` with ``turn``; see :class:`Ahead`."""
        env, at = self.env, self._at_view
        while True:
            tables = self.tables.now
            tables.counts[TURN] = env.turn
            self._take_tables()
            reason, self.next_ns, self.next_change_ns = _run_ahead(
                self.net, self._moves, tables, self._at, time_ns, turn
            )
            env.turn = int(tables.counts[TURN])
            if reason == ahead.LIMIT:
                return False
            if tables.tally[CUT]:
                self._write_log()
            if reason == ahead.NO_ROOM:
                self._make_room()
            elif reason != ahead.LOG_FULL:
                break
        self.next_ns = self.next_change_ns = -1  # until it has run again
        env.advance(at[ahead.NOW_NS])
        if reason == ahead.BATCH_DONE:
            self._complete_batches()
        elif reason == ahead.SEQUENCE_OVER:
            env.happen(self._stretches.pop(at[ahead.WHO]))
        else:
            env.happen(self._arrivals.pop(at[ahead.WHO]))
        return True

    def _change_now(self) -> None:
        """Compute the rates at the end of this instant."""
        self.next_change_ns = min(self.next_change_ns, self.env.now)
        self._at_view[ahead.NOW_NS] = self.env.now
        self._at_view[ahead.CHANGE_DUE] = 1

    def _complete_batches(self) -> None:
        """Fire the events of batches that are done, up to the next message."""
        first, stop = self._count[core.N_HANDLED], self._count[core.N_DONE]
        for batch, start_ns, end_ns, log in self._done[first:stop].tolist():
            if batch < 0:
                break
            self._count[core.N_HANDLED] += 1
            self._complete(batch, start_ns, end_ns, log)

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
        self.tables.make_room()
        net, at = self.net, self._at_view
        active = at[ahead.ACTIVE_NEEDED]
        if active > len(net.entity):
            self.net = net = with_places(net, 2 * active)
        if at[ahead.USES_NEEDED] > len(net.use):
            self.net = net = net._replace(use=grown(net.use, 2 * at[ahead.USES_NEEDED]))
        if at[ahead.IN_LOGS_NEEDED] > len(net.log):
            self.net = net._replace(log=grown(net.log, 2 * at[ahead.IN_LOGS_NEEDED]))
        records = self._count[core.N_RECORD] + active
        if records > len(self._record):
            self._record = grown(self._record, 2 * records)
        if active > len(self._done):
            done = np.zeros((2 * active, 4), np.int64)
            done[: len(self._done)] = self._done
            self._done = done
        if 2 * self._count[core.N_START] > len(self._start):
            self._start = grown(self._start, 2 * len(self._start))
        self._moves = self._present_moves()

    def _take_tables(self) -> None:
        """Read the tables of the templates again, if larger ones have replaced them."""
        if self._tables is not self.templates.tables:
            self._tables = self.templates.tables
            self.net = self.net._replace(**self._tables._asdict())
            self._moves = self._present_moves()
        if self._edition != self.templates.merging.edition:
            self._edition = self.templates.merging.edition
            limits = self.templates.merging.limits(self._capacity)
            for link in np.flatnonzero(limits != self.net.link["capacity"]).tolist():
                self._limit(link, float(limits[link]))
        if self.templates.renewed:
            self._renew_uses()
        while self._reserved and self._reserved[0][0] < self.env.now:
            release(self.net, self._reserved.pop(0)[1])

    def _renew_uses(self) -> None:
        """Let active entities use the present links of their templates."""
        renewed = np.zeros(len(self._tables.ptr), bool)
        renewed[list(self.templates.renewed)] = True
        self.templates.renewed.clear()
        active = self.net.entity[self.net.heap[: self.net.counters[HEAP_SIZE]]]["template"]
        needed = int(self.net.counters[USED_USES]) + 2 * int(self._tables.uses[active].sum())
        if needed > len(self.net.use):
            self.net = self.net._replace(use=grown(self.net.use, 2 * needed))
        core.renew_uses(self.net, renewed)
        self._change_now()

    def _grow_batches(self) -> None:
        old = len(self._waiting)
        self._batch = grown(self._batch, 2 * old)
        self._moves = self._moves._replace(batch=self._batch)
        self._waiting += [_NOBODY] * old
        self._free_batches = list(range(2 * old - 1, old - 1, -1))

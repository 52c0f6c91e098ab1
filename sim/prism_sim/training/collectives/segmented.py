"""Rings of a socket library: segment after segment, each with a rendezvous.

The loop of a rank sends segment j and posts the receive of segment j when two conditions are true:
it has received and handled segment j - 2, and it has sent its own segment j - 2. Two segments are
therefore active at a time. Between the rounds of an all-reduce the rank waits for both. A segment
starts when its sender and its receiver are ready and the segment before it has been sent:

    turn[r, j]    = max(turn[r, j - 1], end[r, j - 2], handled[r - 1, j - 2])
    begin[r, j]   = max(turn[r, j], turn[r + 1, j], end[r, j - 1])
    end[r, j]     = begin[r, j] + segment time
    handled[r, j] = max(end[r, j] + latency, handled[r, j - 1]) + handling time

If handling takes less time than a segment, pipelining hides it, and a hop is silent only between
the two rounds. With short segments or slow hosts, a train has gaps. Bandwidth is shared as in the
plain ring: one entity over all hops. Its pace is at most that of a ring that is alone on its links,
with rendezvous and handling.

Reference: the ring of ``gloo/allreduce.cc``, in which a rank also sends to the rank before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.cluster.layout import GBPS
from prism_sim.cluster.network import Connection, Hop, Network
from prism_sim.cluster.wire import TRAIN, messages
from prism_sim.draws import Coordinate, Draws
from prism_sim.scenario.library import Library
from prism_sim.training.collectives.base import Builder, Collective, Group, shared
from prism_sim.training.collectives.coupled import CoupledHops, mean_chunk_ns
from prism_sim.training.collectives.ring import ROUNDS

Times = NDArray[np.float64]
Runner = Callable[..., "Run"]
"""Gives the times of a run from those of its segments."""
UNDER_WAY = 2
"""Number of segments that a rank may send and receive before it has finished earlier ones."""


@dataclass(frozen=True)
class Run:
    """Times of one run of a ring [ns], each of shape (hops, segments).

    Attributes
    ----------
    turn : the sender of the hop is ready for its segment.
    begin, end : the first and the last byte of the segment are sent.
    done_ns : the last rank has handled the last segment.
    """

    turn: Times
    begin: Times
    end: Times
    done_ns: float


def follow(
    ready_ns: Sequence[float],
    segment_ns: Times,
    latency_ns: Times,
    handling_ns: Times,
    rounds: int,
    not_before_ns: Times | float = -math.inf,
    burst_ns: float = 0.0,
) -> Run:
    """Compute the times of a ring of hops from each rank to the next.

    Parameters
    ----------
    ready_ns : time at which the sender of each hop joined, shape (hops,).
    segment_ns : of each hop, shape (hops,), or of each segment on it, shape (hops, segments).
    latency_ns : of each hop, shape (hops,).
    handling_ns : of the segments that arrive over each hop, shape (hops, segments).
    rounds : number of equal parts of the segments; a part waits for all parts before it.
    not_before_ns : earliest begin of each segment, shape (hops, segments).
    burst_ns : the longest silence of a hop that it can make up for at once, by a token bucket.
    """
    hops, segments = handling_ns.shape
    own_ns = np.broadcast_to(segment_ns.T, (segments, hops)).T
    allowed_ns = np.broadcast_to(not_before_ns, (hops, segments))
    turn, begin, end = (np.zeros((hops, segments)) for _ in range(3))
    handled = np.zeros((hops, segments))  # by the receiver of the hop
    free = busy = np.asarray(ready_ns, float)
    for j in range(segments):
        in_round = j % (segments // rounds)
        before = j - (UNDER_WAY if in_round >= UNDER_WAY else in_round + 1)
        if before < 0:
            turn[:, j] = ready_ns
        else:
            got = np.roll(handled[:, before], 1)  # by the sender of the hop
            turn[:, j] = np.maximum.reduce([got, end[:, before], turn[:, j - 1]])
        both = np.maximum(turn[:, j], np.roll(turn[:, j], -1))
        begin[:, j] = np.maximum.reduce([both, free, allowed_ns[:, j]])
        at_once_ns = np.minimum(burst_ns, begin[:, j] - free) if burst_ns else 0.0
        end[:, j] = free = begin[:, j] + np.maximum(own_ns[:, j] - at_once_ns, 0.0)
        handled[:, j] = busy = np.maximum(end[:, j] + latency_ns, busy) + handling_ns[:, j]
    return Run(turn, begin, end, float(busy.max()))


class SegmentedRing:
    """One ring that sends segments with a rendezvous.

    Parameters
    ----------
    hops : from each rank to the next, round the ring.
    members : the member of the group that sends on each hop.
    library : size of segments and time to handle them.
    key : of its draws.
    """

    def __init__(
        self, hops: Sequence[Hop], members: Sequence[int], network: Network, library: Library,
        draws: Draws, key: tuple[Coordinate, ...],
    ) -> None:  # fmt: skip
        self._hops = CoupledHops(hops, network.fabric)
        self._members = np.array(members)
        self._network = network
        self._library = library
        self._draws = draws
        self._key = key
        self._runs = 0

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Run ``operation`` now; see :class:`~.base.Collective`."""
        hops, network = self._hops, self._network
        segments, size, run = self._ready(operation, size_bytes, ready_ns)

        def over(start_ns: int, end_ns: int, log: int) -> int:
            fluid = hops.course(start_ns, end_ns, log)
            if len(fluid.pace) == 1:
                c = run(np.minimum(mean_chunk_ns(fluid, size), (end_ns - start_ns) / segments))
            else:
                times_ns = fluid.moved_to(alone.begin - start_ns, alone.done_ns - start_ns)
                c = run(size / fluid.burst_at(times_ns), times_ns)
            self._show(c, size)
            return max(0, round(c.done_ns) - end_ns)

        alone, now = run(size / hops.free_rates()), network.env.now
        cap = size * segments / (alone.done_ns - now) if alone.done_ns > now else math.inf
        hops.move(size * segments, event, over, cap)

    def abandon(self, operation: str, size_bytes: int, ready_ns: Sequence[int]) -> None:
        """Write the segments that were sent; see :class:`~.base.PartialCollective`."""
        _, size, run = self._ready(operation, size_bytes, ready_ns)
        self._show(run(size / self._hops.free_rates()), size, self._network.env.now)

    def _ready(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int]
    ) -> tuple[int, int, Runner]:
        """Segments of each rank, bytes of one, and the times of a run from ``ready_ns`` on."""
        ranks, library = len(self._hops), self._library
        if operation == "reduce_scatter":
            operation = library.reduce_scatter_as
        per_chunk = max(UNDER_WAY, shared(shared(size_bytes, library.segment_bytes), ranks))
        rounds = ROUNDS[operation]
        segments = rounds * (ranks - 1) * per_chunk
        size = shared(size_bytes, ranks * per_chunk) + 2 * library.control_bytes
        ready = np.array(ready_ns, float)[self._members]
        self._runs += 1
        handling_ns = self._handling_ns((ranks, segments), size)
        cluster = self._network.layout.cluster
        burst_ns = cluster.nic_burst_bytes / (cluster.nic_gbps * GBPS)

        def run(segment_ns: Times, not_before_ns: Times | float = -math.inf) -> Run:
            return follow(
                ready.tolist(), segment_ns, self._hops.latency_ns, handling_ns, rounds,
                not_before_ns, burst_ns,
            )  # fmt: skip

        return segments, size, run

    def _handling_ns(self, shape: tuple[int, int], size_bytes: int) -> Times:
        library = self._library
        median_ns = library.handling_ms * 1e6 + library.handling_ns_per_byte * size_bytes
        stream = self._draws.stream("handling", *self._key, self._runs)
        normal = stream.standard_normal(shape)
        times: Times = median_ns * np.exp(library.handling_sigma * normal)
        return times

    def _show(self, c: Run, size_bytes: int, until_ns: float = math.inf) -> None:
        """Pass every segment to the observer, and the control messages before it.

        What ends after ``until_ns`` is not sent.

        The request of a sender is a part of ``size_bytes``, unless it is sent while the hop is
        silent; the answer of a receiver has the other direction.
        """
        control, observe = self._library.control_bytes, self._network.observer.observe
        hops, segments = c.begin.shape
        silent = np.ones((hops, segments), bool)
        silent[:, 1:] = (c.turn[:, 1:] < c.begin[:, :-1]) | (c.turn[:, 1:] >= c.end[:, :-1])
        alone = silent & (c.turn < c.begin)
        trains = np.zeros(hops * segments, TRAIN)
        trains["route"] = np.repeat(self._hops.route, segments)
        trains["start_ns"] = c.begin.ravel()
        trains["queued_ns"] = np.maximum(c.turn, np.roll(c.turn, -1, 0)).ravel()
        trains["burst_ns"] = trains["period_ns"] = (c.end - c.begin).ravel()
        trains["bursts"] = 1
        trains["burst_bytes"] = size_bytes - control * alone.ravel()
        observe(self._hops.with_paths(trains[c.end.ravel() <= until_ns]))
        receiver_turn = np.roll(c.turn, -1, 0)
        for hop, route in enumerate(self._hops.route.tolist()):
            requested, answered = c.turn[hop][alone[hop]], receiver_turn[hop]
            observe(messages(route, requested[requested <= until_ns], control))
            observe(messages(route, answered[answered <= until_ns], control, reverse=True))


class TwoWayRing:
    """Rings in both directions: one of them for all-gathers, the other for all else."""

    def __init__(self, gathers: SegmentedRing, others: SegmentedRing) -> None:
        self._gathers = gathers
        self._others = others

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Run ``operation`` now; see :class:`~.base.Collective`."""
        self._ring(operation).start(operation, size_bytes, ready_ns, event)

    def abandon(self, operation: str, size_bytes: int, ready_ns: Sequence[int]) -> None:
        """Write the segments that were sent; see :class:`~.base.PartialCollective`."""
        self._ring(operation).abandon(operation, size_bytes, ready_ns)

    def _ring(self, operation: str) -> SegmentedRing:
        return self._gathers if operation == "all_gather" else self._others


def segmented(library: Library, draws: Draws, first_step: int = 0) -> Builder:
    """Lays out such rings: one for each group, in which each rank sends to the rank before it.

    If the library sends all-gathers to the next rank, a group has a second ring for them.
    ``first_step`` of the job's present attempt separates its draws from those of earlier attempts.
    """

    def build(group: Group, network: Network) -> list[Collective]:
        if len(group.gpus) == 1:
            return []
        servers = group.by_server(network.layout)
        members = [member for server in servers for member in server][::-1]
        connection = group.connection
        key: tuple[Coordinate, ...] = (
            connection.job,
            connection.kind,
            connection.queue_pair,
            *group.gpus,
        )
        if first_step:
            key = (*key, f"from step {first_step}")

        def ring(members: Sequence[int], key: tuple[Coordinate, ...]) -> SegmentedRing:
            hops = _hops(group, members, network)
            return SegmentedRing(hops, members, network, library, draws, key)

        to_previous = ring(members, key)
        if library.gather_to == "previous":
            return [to_previous]
        return [TwoWayRing(ring(members[::-1], (*key, "to the next rank")), to_previous)]

    return build


def _hops(group: Group, members: Sequence[int], network: Network) -> list[Hop]:
    """The hops of a ring of ``members``, from each to the one after it."""
    gpus = [group.gpus[member] for member in members]
    connection = _one(group.connection, network)
    return [network.hop(a, b, connection) for a, b in zip(gpus, [*gpus[1:], gpus[0]], strict=True)]


def _one(connection: Connection, network: Network) -> Connection:
    """A socket library has one connection between two ranks, also if RDMA would have more."""
    return network.queue_pairs(connection)[0]

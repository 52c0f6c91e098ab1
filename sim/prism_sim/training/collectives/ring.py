"""Ring collectives: each of n ranks sends chunks to the next rank, n - 1 or 2 (n - 1) times.

If c_i is the time of hop *i* for a chunk and L_i its latency, the time from one chunk to the next
is

    period = max(max_i c_i, mean_i (c_i + L_i))

(the largest mean cycle of the max-plus recursion "a hop sends chunk k when it has sent
chunk k - 1 and has received it from the hop before": either one hop is the bottleneck and
hides every latency, or a chunk goes round the ring without waiting). K steps take K periods;
equal hops give the textbook K (c + L). The transient before this steady state is left out. It is
zero for equal hops, and otherwise less than the time of one chunk once round the ring.

Ranks do not join a collective at the same time. A hop sends as soon as both of its ends have
joined: the first chunk at once, and each other chunk when the hop before has sent one. The chain of
chunks ends at the missing rank. The hops just behind a late rank are therefore the last to begin,
and the time of the first packets shows which rank was late. If a rank never joins, the hop that
starts at the rank after it sends one chunk, the next hop two, and so on.

References: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009;
Baccelli et al., Synchronization and Linearity, 1992, for the cycle mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import simpy

from prism_common.compiled import Bound, compiled
from prism_sim.cluster.history import Spare, sent_by, without_short_notes
from prism_sim.cluster.network import Connection, Hop, Network
from prism_sim.cluster.pace import take_log
from prism_sim.cluster.state import Array, Int32s, Int64s, Net
from prism_sim.training.collectives.base import AllReduceBase, Collective, Group, shared
from prism_sim.training.collectives.coupled import (
    CoupledHops,
    Course,
    Early,
    Floats,
    first_rate,
    mean_chunk_ns,
    trains_of,
)

ROUNDS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
"""Number of rounds of n - 1 steps for each operation."""
NEARLY_ALL = 1 - 1e-6
"""A hop begins early only if a smaller share of its chunk is left when the last rank joins."""


class Ring:
    """One ring of ranks.

    Parameters
    ----------
    hops : from each member to the next, round the ring.
    members : the member of the group that sends on each hop.
    shares : number of rings that share the group's bytes.
    servers : number of servers of the group, which decides its rate.
    """

    def __init__(
        self,
        hops: Sequence[Hop],
        members: Sequence[int],
        shares: int,
        network: Network,
        servers: int = 1,
    ) -> None:
        self._hops = CoupledHops(hops, network.fabric)
        self._members = np.array(members)
        self._shares = shares
        self._servers = servers
        self._network = network
        self._running = False

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Run ``operation`` now; see :class:`~.base.Collective`."""
        steps = ROUNDS[operation] * (len(self._hops) - 1)
        chunk_bytes = shared(size_bytes, len(self._hops) * self._shares)
        ready = np.array(ready_ns, np.int64)[self._members]

        spare = self._hops.spare_since(min(ready_ns))

        def over(start_ns: int, end_ns: int, log: int) -> int:
            return self._over((start_ns, end_ns, log), chunk_bytes, steps, ready, spare)

        self._running = True
        network, servers = self._network, self._servers
        cap = network.cap(size_bytes, servers) if servers > 1 else math.inf
        self._hops.move(chunk_bytes * steps, event, over, cap)

    def abandon(self, operation: str, size_bytes: int, ready_ns: Sequence[int]) -> None:
        """Write the chunks that were sent; see :class:`~.base.PartialCollective`."""
        steps = ROUNDS[operation] * (len(self._hops) - 1)
        chunk_bytes = shared(size_bytes, len(self._hops) * self._shares)
        ready, now = np.array(ready_ns, np.int64)[self._members], self._network.env.now
        rates, latency_ns = self._hops.free_rates(), self._hops.latency_ns
        first_ns = int(ready.min())
        spare = without_short_notes(self._hops.spare_since(first_ns), first_ns)
        early = Early(*early_chunks(ready, rates, spare, chunk_bytes, latency_ns, now, steps))
        self._network.observer.observe(self._hops.early_trains(early, chunk_bytes))

    def cut_short(self, operation: str, size_bytes: int, ready_ns: Sequence[int]) -> None:
        """Write the chunks that were sent of a run that began, but has a link that is silent."""
        if self._running:
            self._running = False
            self.abandon(operation, size_bytes, ready_ns)

    def _over(
        self,
        run: tuple[int, int, int],
        chunk_bytes: int,
        steps: int,
        ready_ns: Int64s,
        spare: Spare,
    ) -> int:
        """Write the trains of all hops; return the time that latencies add [ns].

        ``run`` has start, end and log. ``spare`` is the free capacity of each hop before the last
        rank joined.
        """
        hops, (start_ns, end_ns, _) = self._hops, run
        if not self._running:  # it was cut short
            hops.course(*run)
            return 0
        self._running = False
        trains, period_ns = _ring_trains(
            self._network.fabric.net, *run, chunk_bytes, steps, ready_ns, spare, hops.latency_ns,
            hops.route,
        )  # fmt: skip
        self._network.observer.observe(hops.with_paths(trains))
        return round(steps * period_ns) - (end_ns - start_ns)


@compiled
def ring_trains(
    net: Net,
    start_ns: int,
    end_ns: int,
    log: int,
    chunk_bytes: int,
    steps: int,
    ready_ns: Int64s,
    spare: Spare,
    latency_ns: Floats,
    route: Int32s,
) -> tuple[Array, float]:
    """The trains of all hops of a run, and its period [ns]; frees the run's ``log``."""
    since_ns, pace, burst = take_log(net, log, len(route))
    course = Course(start_ns, end_ns, since_ns, pace, burst)
    travel_ns = (mean_chunk_ns(course, chunk_bytes) + latency_ns).sum() / len(route)
    period_ns = max((end_ns - start_ns) / steps, travel_ns)
    count, begin_ns, early_ns, left_bytes = early_chunks(
        ready_ns, first_rate(course), spare, chunk_bytes, latency_ns, start_ns, steps
    )
    early = Early(count, begin_ns, early_ns, left_bytes)
    zero_ns = np.full(len(route), float(start_ns))
    trains = trains_of(course, period_ns, steps, chunk_bytes, early, zero_ns, route)
    return trains, period_ns


_ring_trains = Bound(ring_trains)


@compiled
def early_chunks(
    ready_ns: Int64s,
    rate: Floats,
    spare: Spare,
    chunk_bytes: int,
    latency_ns: Floats,
    last_ns: int,
    steps: int,
) -> tuple[Int64s, Floats, Floats, Floats]:
    """The chunks that each hop begins to send before the last rank joins at ``last_ns``.

    A hop sends at its ``rate`` [bytes/ns], limited by the free capacity of its links (``spare``).

    Returns
    -------
    chunks, begin_ns, end_ns, left_bytes : number of chunks, the begin of the first, the end of
        the last or ``last_ns``, and the rest of the last chunk then, shape (hops,); a hop without
        early chunks has 0 and ``last_ns`` twice.
    """
    hops = len(ready_ns)
    chunks, left_bytes = np.zeros(hops, np.int64), np.zeros(hops)
    begin_ns, end_ns = np.full(hops, float(last_ns)), np.full(hops, float(last_ns))
    arrived = np.full(hops, -1.0)  # at the far end of each hop, in the step before
    moved = ready_ns.min() < last_ns
    step = 0
    while moved and step < steps:
        moved = False
        now_arrived = np.full(hops, np.inf)
        for i in range(hops):
            if chunks[i] < step:
                continue
            begin = float(max(ready_ns[i], ready_ns[(i + 1) % hops]))
            if step > 0:
                begin = max(begin, end_ns[i], arrived[i - 1])
            if begin >= last_ns:
                continue
            end, left = sent_by(spare, i, begin, chunk_bytes, rate[i])
            if left > NEARLY_ALL * chunk_bytes:
                continue
            moved = True
            if step == 0:
                begin_ns[i] = begin
            chunks[i] = step + 1
            end_ns[i], left_bytes[i] = end, left
            now_arrived[i] = end + latency_ns[i] if left == 0.0 else np.inf
        arrived = now_arrived
        step += 1
    return chunks, begin_ns, end_ns, left_bytes


def rings(group: Group, network: Network) -> list[Collective]:
    """The rings over a group, which share its bytes evenly.

    There is one ring for every NIC that all servers of the group have. Ring *c* enters and
    leaves a server by the server's *c*-th NIC, so that rails are not crossed, and passes
    through the server's other members over NVLink. (NCCL builds its rings this way, with
    ``NCCL_CROSS_NIC=0``.)
    """
    if len(group.gpus) == 1:
        return []
    servers, nics = group.by_server(network.layout), group.nics_by_server(network.layout)
    members = [member for server in servers for member in server]
    channels = min(len(n) for n in nics) if len(servers) > 1 else 1
    connections = network.queue_pairs(group.connection) if len(servers) > 1 else [group.connection]
    shares = channels * len(connections)
    return [
        Ring(_hops(group, network, channel, connection), members, shares, network, len(servers))
        for channel in range(channels)
        for connection in connections
    ]


def _hops(group: Group, network: Network, channel: int, connection: Connection) -> list[Hop]:
    servers, nics = group.by_server(network.layout), group.nics_by_server(network.layout)
    hops: list[Hop] = []
    for i, members in enumerate(servers):
        gpus = [group.gpus[member] for member in members]
        hops += [network.hop(a, b, connection) for a, b in pairwise(gpus)]
        after = (i + 1) % len(servers)
        if after != i:
            hops.append(network.nic_hop(nics[i][channel], nics[after][channel], connection))
        else:
            hops.append(network.hop(gpus[-1], gpus[0], connection))
    return hops


class RingAllReduce(AllReduceBase):
    """Lay out the rings over the group."""

    over_sockets: ClassVar[bool] = True

    kind: Literal["ring"] = "ring"

    def build(self, group: Group, network: Network) -> list[Collective]:
        return rings(group, network)

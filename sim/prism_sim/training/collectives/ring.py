"""Ring collectives: each of n ranks passes chunks to the next, n - 1 or 2 (n - 1) times.

With c_i the time hop *i* needs for a chunk and L_i its latency, the time between one chunk
and the next is

    period = max(max_i c_i, mean_i (c_i + L_i))

(the largest mean cycle of the max-plus recursion "a hop sends chunk k when it has sent
chunk k - 1 and has received it from the hop before": either one hop is the bottleneck and
hides every latency, or a chunk travels all the way round without ever waiting). K steps take
K periods; equal hops give the textbook K (c + L). What is left out is the transient before the
ring settles into that pace: nil for equal hops, less than one trip of a chunk round
the ring otherwise.

Ranks do not come to a collective at the same time. Hops whose both ends are there send
what they can: the first chunk at once, the next when the hop before has sent one, until the
chain of chunks ends at the rank that is missing. So the hops just behind a late rank are
the last to begin, and the time of the first packets tells who was late.

References: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009;
Baccelli et al., Synchronization and Linearity, 1992, for the cycle mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import simpy
from numpy.typing import NDArray

from llmprism.numerics.compiled import compiled
from prism_sim.cluster.network import Connection, Hop, Network
from prism_sim.cluster.state import Array, Int32s, Int64s, Net
from prism_sim.cluster.wire import TRAIN
from prism_sim.training.collectives.base import Collective, Group, shared
from prism_sim.training.collectives.coupled import CoupledHops, own_rates

ROUNDS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
"""Rounds of n - 1 steps that each operation takes."""


class Ring:
    """One ring of ranks.

    Parameters
    ----------
    hops : the way from each member to the next, all around.
    members : which member of the group sends on each hop.
    shares : how many rings split the group's bytes among them.
    servers : how many servers the group spans; decides what rate it reaches.
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

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Run ``operation`` now; see :class:`~.base.Collective`."""
        steps = ROUNDS[operation] * (len(self._hops) - 1)
        chunk_bytes = shared(size_bytes, len(self._hops) * self._shares)
        ready = np.array(ready_ns, np.int64)[self._members]

        def over(start_ns: int, end_ns: int) -> int:
            return self._over(start_ns, end_ns, chunk_bytes, steps, ready)

        network, servers = self._network, self._servers
        cap = network.cap(size_bytes, servers) if servers > 1 else math.inf
        network.fabric.transfer(self._hops.bundle, chunk_bytes * steps, 0, event, over, cap)

    def _over(
        self, start_ns: int, end_ns: int, chunk_bytes: int, steps: int, ready_ns: Int64s
    ) -> int:
        """Write the trains of all hops; returns the time that latencies add [ns]."""
        hops, network = self._hops, self._network
        trains = np.zeros(len(hops), TRAIN)
        period_ns = write_trains(
            network.fabric.net, hops.ptr, hops.links, hops.hops_on, hops.route, hops.latency_ns,
            ready_ns, chunk_bytes, steps, start_ns, end_ns, trains,
        )  # fmt: skip
        network.observer.observe(trains)
        return round(steps * period_ns) - (end_ns - start_ns)


@compiled
def write_trains(
    net: Net,
    ptr: Int64s,
    links: Int64s,
    hops_on: Int64s,
    route: Int32s,
    latency_ns: NDArray[np.float64],
    ready_ns: Int64s,
    chunk_bytes: int,
    steps: int,
    start_ns: int,
    end_ns: int,
    trains: Array,
) -> float:
    """Fill ``trains`` (dtype TRAIN) with what each hop sent; returns the ring's period [ns].

    The fluid part of the ring ran from ``start_ns`` to ``end_ns``; ``ptr`` and ``links`` are the
    links of each hop, ``hops_on`` how many of the ring's hops take each, and ``ready_ns`` says
    when the hop's sender had joined.
    """
    hops = len(route)
    own_ns = np.empty(hops)
    own_rates(net, ptr, links, hops_on, own_ns)
    travel_ns = 0.0
    for i in range(hops):
        own_ns[i] = chunk_bytes / own_ns[i]
        travel_ns += own_ns[i] + latency_ns[i]
    period_ns = max((end_ns - start_ns) / steps, travel_ns / hops)
    chunks, begin_ns, last_ns = early_chunks(ready_ns, own_ns, latency_ns, start_ns, steps)
    for i in range(hops):
        trains[i]["route"] = route[i]
        trains[i]["start_ns"] = start_ns + period_ns * chunks[i]
        trains[i]["burst_ns"] = min(own_ns[i], period_ns)
        trains[i]["period_ns"] = period_ns
        trains[i]["bursts"] = steps - chunks[i]
        trains[i]["burst_bytes"] = chunk_bytes
        trains[i]["early_bursts"] = chunks[i]
        trains[i]["early_start_ns"] = begin_ns[i]
        trains[i]["early_end_ns"] = last_ns[i]
    return period_ns


@compiled
def early_chunks(
    ready_ns: Int64s,
    own_ns: NDArray[np.float64],
    latency_ns: NDArray[np.float64],
    last_ns: int,
    steps: int,
) -> tuple[Int64s, NDArray[np.float64], NDArray[np.float64]]:
    """What each hop sends before the last rank joins at ``last_ns``.

    Returns
    -------
    chunks, begin_ns, end_ns : how many chunks, the begin of the first and the end of the
        last of them, shape (hops,); a hop without early chunks has 0 and ``last_ns`` twice.
    """
    hops = len(ready_ns)
    chunks = np.zeros(hops, np.int64)
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
            moved = True
            if step == 0:
                begin_ns[i] = begin
            chunks[i] = step + 1
            end_ns[i] = begin + own_ns[i]
            now_arrived[i] = end_ns[i] + latency_ns[i]
        arrived = now_arrived
        step += 1
    return chunks, begin_ns, end_ns


def rings(group: Group, network: Network) -> list[Collective]:
    """The rings over a group, which share its bytes evenly.

    One ring for every NIC that each server of the group can contribute. Ring *c* enters and
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

"""Collectives that send a buffer, slice by slice, along a fixed set of hops.

A tree and a chain differ only in their hops and the depth of each hop: a slice reaches a hop of
depth d after d hops have forwarded it. All hops carry the whole buffer, so they are coupled. The
total time is the buffer size over the rate of the slowest hop, plus the time of one slice to the
deepest hop:

    time = S / min rate + depth (slice / rate + L)

Nothing is written of a tree or a chain that a member never joins. (In a library each hop would send
what fits in its receiver's buffer: 4 MiB at most.)

References: Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast,
reduction and scan, 2009. The slice is NCCL's: an eighth of its 4 MiB channel buffer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import simpy

from prism_sim.cluster.network import Hop, Network
from prism_sim.training.collectives.base import AllReduceBase, Collective, Group, shared
from prism_sim.training.collectives.coupled import CoupledHops, Course, mean_chunk_ns

SLICE_BYTES = 512 * 1024


class Pipelined:
    """One set of hops that carries a buffer, or a share of it.

    Parameters
    ----------
    hops : all hops that carry it.
    depth : number of hops that a slice passes before each of them.
    shares : number of parts that share the group's bytes.
    """

    def __init__(
        self, hops: Sequence[Hop], depth: Sequence[int], shares: int, network: Network
    ) -> None:
        self._hops = CoupledHops(hops, network.fabric)
        self._depth = np.array(depth)
        self._shares = shares
        self._network = network

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Send the share of ``size_bytes`` now; see :class:`~.base.Collective`."""
        share = shared(size_bytes, self._shares)
        slices = shared(share, SLICE_BYTES)
        slice_bytes = shared(share, slices)

        def over(start_ns: int, end_ns: int, log: int) -> int:
            return self._over(self._hops.course(start_ns, end_ns, log), slices, slice_bytes)

        self._hops.move(slices * slice_bytes, event, over, math.inf)

    def _over(self, course: Course, slices: int, slice_bytes: int) -> int:
        """Write the trains of all hops; return the time that depth adds [ns]."""
        hops = self._hops
        period_ns = (course.end_ns - course.start_ns) / slices
        period_ns = max(period_ns, float(mean_chunk_ns(course, slice_bytes).max()))
        last_ns = float(hops.latency_ns.max())
        step_ns = period_ns + last_ns
        delay_ns = self._depth * step_ns
        trains = hops.trains(course, period_ns, slices, slice_bytes, delay_ns)
        self._network.observer.observe(trains)
        return round(int(self._depth.max()) * step_ns + last_ns)


def chains(group: Group, network: Network) -> list[Collective]:
    """Broadcast along one chain from the first member through all others, server by server.

    NCCL broadcasts along its rings in this way. It is pipelined, and every hop carries the whole
    buffer, so the bus bandwidth factor is 1.
    """
    members = [member for server in group.by_server(network.layout) for member in server]
    connections = network.queue_pairs(group.connection)
    parts: list[Collective] = []
    for connection in connections:
        hops = [network.hop(group.gpus[a], group.gpus[b], connection) for a, b in pairwise(members)]
        parts.append(Pipelined(hops, range(len(hops)), len(connections), network))
    return parts if len(members) > 1 else []


def trees(group: Group, network: Network) -> list[Collective]:
    """Two mirrored binary trees over the group's servers, for every NIC they all have.

    Sums are sent up a tree, and results are sent down; the two share the bytes. A server that
    forwards for two others in one is a leaf of the other. Every NIC therefore sends and receives
    about as much as in a ring, with a logarithmic number of hops instead of a linear one. Inside a
    server the members form a chain over NVLink.

    Reference: NCCL's double binary trees (Sanders, Speck and Traeff, 2009); latency terms as in
    NCCL's tuning model, base + 2 ((ranks / nodes - 1) intra + log2(nodes) inter).
    """
    servers = group.by_server(network.layout)
    if len(group.gpus) == 1:
        return []
    channels = min(len(nics) for nics in group.nics_by_server(network.layout))
    orders = [range(len(servers)), range(len(servers) - 1, -1, -1)]
    connections = network.queue_pairs(group.connection)
    shares = 2 * channels * len(connections)
    return [
        _tree(Group(group.gpus, connection), network, list(order), channel, shares)
        for channel in range(channels)
        for order in orders
        for connection in connections
    ]


def _tree(
    group: Group, network: Network, order: list[int], channel: int, shares: int
) -> Collective:
    """The tree in which server ``order[i]`` is a child of ``order[(i - 1) // 2]``."""
    servers = group.by_server(network.layout)
    nics = group.nics_by_server(network.layout)
    levels = len(order).bit_length() - 1
    below = max(len(members) for members in servers) - 1
    hops: list[Hop] = []
    depth: list[int] = []

    def both_ways(up: Hop, down: Hop, height: int) -> None:
        """Add two hops: a slice goes up after ``height`` hops, and down as many before the end."""
        hops.extend([up, down])
        depth.extend([height, 2 * (levels + below) - 1 - height])

    for members in servers:
        gpus = [group.gpus[m] for m in members]
        for i in range(len(gpus) - 1, 0, -1):
            up = network.hop(gpus[i], gpus[i - 1], group.connection)
            down = network.hop(gpus[i - 1], gpus[i], group.connection)
            both_ways(up, down, below - i)
    for i in range(1, len(order)):
        child, parent = nics[order[i]][channel], nics[order[(i - 1) // 2]][channel]
        level = (i + 1).bit_length() - 1
        up = network.nic_hop(child, parent, group.connection)
        down = network.nic_hop(parent, child, group.connection)
        both_ways(up, down, below + levels - level)
    return Pipelined(hops, depth, shares, network)


class TreeAllReduce(AllReduceBase):
    """Two binary trees over the group's servers."""

    kind: Literal["tree"] = "tree"

    def build(self, group: Group, network: Network) -> list[Collective]:
        return trees(group, network)

"""Tree all-reduce: sums are sent up a binary tree of servers, and results are sent down.

Two trees share the bytes. A server that forwards for two others in one tree is a leaf of the other
tree. Every NIC therefore sends and receives about as much as in a ring, with a logarithmic number
of hops instead of a linear one. Inside a server the members form a chain over NVLink.

Reference: NCCL's double binary trees (Sanders, Speck and Traeff, 2009); latency terms as in
NCCL's tuning model, base + 2 ((ranks / nodes - 1) intra + log2(nodes) inter).
"""

from __future__ import annotations

from typing import Literal

from prism_sim.cluster.network import Hop, Network
from prism_sim.training.collectives.base import AllReduceBase, Collective, Group
from prism_sim.training.collectives.pipelined import Pipelined


def trees(group: Group, network: Network) -> list[Collective]:
    """Two mirrored binary trees over the group's servers, for every NIC they all have."""
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

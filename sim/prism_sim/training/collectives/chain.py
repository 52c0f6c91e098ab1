"""Broadcast along a chain: the first member sends, and every other member forwards.

NCCL broadcasts along its rings in this way. It is pipelined, and every hop carries the whole
buffer, so the bus bandwidth factor is 1.
"""

from __future__ import annotations

from itertools import pairwise

from prism_sim.cluster.network import Network
from prism_sim.training.collectives.base import Collective, Group
from prism_sim.training.collectives.pipelined import Pipelined


def chains(group: Group, network: Network) -> list[Collective]:
    """One chain from the group's first member through all others, server by server."""
    members = [member for server in group.by_server(network.layout) for member in server]
    connections = network.queue_pairs(group.connection)
    parts: list[Collective] = []
    for connection in connections:
        hops = [network.hop(group.gpus[a], group.gpus[b], connection) for a, b in pairwise(members)]
        parts.append(Pipelined(hops, range(len(hops)), len(connections), network))
    return parts if len(members) > 1 else []

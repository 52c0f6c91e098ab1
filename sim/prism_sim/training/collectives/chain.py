"""Broadcast along a chain: the first member sends, everyone else passes on.

NCCL broadcasts along its rings in this way: pipelined, every hop carries the whole buffer,
so the bus bandwidth factor is 1.
"""

from __future__ import annotations

from itertools import pairwise

from prism_sim.cluster.network import Hop, Network
from prism_sim.training.collectives.base import Collective, Group
from prism_sim.training.collectives.pipelined import Pipelined


def chains(group: Group, network: Network) -> list[Collective]:
    """One chain from the group's first member through all others, server by server."""
    members = [member for server in group.by_server(network.layout) for member in server]
    hops: list[Hop] = [
        network.hop(group.gpus[a], group.gpus[b], group.line) for a, b in pairwise(members)
    ]
    return [Pipelined(hops, range(len(hops)), 1, network)] if hops else []

"""All-to-all: every rank sends every other rank an equal part of its buffer at the same time.

Only shared links couple the flows, so each is a flow of its own. The exchange ends with the last
flow. Each member sends (n - 1) / n of its
buffer (nccl-tests' bus bandwidth factor).
"""

from __future__ import annotations

from prism_sim.cluster.network import Network
from prism_sim.training.collectives.base import Collective, Group
from prism_sim.training.collectives.uncoupled import Uncoupled


def all_to_all(group: Group, network: Network) -> list[Collective]:
    """Lay out the exchange among all members of the group."""
    members = range(len(group.gpus))
    if len(members) == 1:
        return []
    pairs = [(a, b) for a in members for b in members if a != b]
    return [Uncoupled(group, pairs, len(members), network)]

"""All-to-all: every rank sends every other one an equal part of its buffer, all at once.

Nothing couples the flows but the links they share, so they are flows of their own: each ends
when it ends, and the exchange with the last of them. Each member sends (n - 1) / n of its
buffer (nccl-tests' bus bandwidth factor).
"""

from __future__ import annotations

from prism_sim.cluster.network import Network
from prism_sim.training.collectives.base import Collective, Group
from prism_sim.training.collectives.uncoupled import Uncoupled


def all_to_all(group: Group, network: Network) -> list[Collective]:
    """The exchange among all members of the group."""
    gpus = group.gpus
    if len(gpus) == 1:
        return []
    pairs = [(a, b) for a in gpus for b in gpus if a != b]
    return [Uncoupled(pairs, group.connection, len(gpus), network)]

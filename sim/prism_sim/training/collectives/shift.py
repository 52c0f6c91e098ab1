"""Every member of a ring sends a message to the next member, once.

Only shared links couple the flows, which are point to point. The shift ends with the arrival of the
last one. Ring attention is a sequence of shifts.
"""

from __future__ import annotations

from prism_sim.cluster.network import Network
from prism_sim.training.collectives.base import Collective, Group
from prism_sim.training.collectives.uncoupled import Uncoupled


def shift(group: Group, network: Network) -> list[Collective]:
    """Lay out a shift by one round the group."""
    members = len(group.gpus)
    if members == 1:
        return []
    pairs = [(member, (member + 1) % members) for member in range(members)]
    return [Uncoupled(group, pairs, 1, network)]

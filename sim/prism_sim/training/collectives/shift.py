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
    gpus = list(group.gpus)
    if len(gpus) == 1:
        return []
    pairs = zip(gpus, [*gpus[1:], gpus[0]], strict=True)
    return [Uncoupled(pairs, group.connection, 1, network)]

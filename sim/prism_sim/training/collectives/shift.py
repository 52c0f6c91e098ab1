"""Everyone passes a message to the next member of a ring, once.

The flows are point to point and coupled by nothing but the links they share; the shift is over
when the last one has arrived. Ring attention is a sequence of shifts.
"""

from __future__ import annotations

from prism_sim.cluster.network import Network
from prism_sim.training.collectives.base import Collective, Group
from prism_sim.training.collectives.uncoupled import Uncoupled


def shift(group: Group, network: Network) -> list[Collective]:
    """A shift by one around the group."""
    gpus = list(group.gpus)
    if len(gpus) == 1:
        return []
    pairs = zip(gpus, [*gpus[1:], gpus[0]], strict=True)
    return [Uncoupled(pairs, group.connection, 1, network)]

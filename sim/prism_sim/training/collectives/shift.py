"""Everyone passes a message to the next member of a ring, once.

The flows are point to point and coupled by nothing but the links they share; the shift is over
when the last one has arrived. Ring attention is a sequence of shifts.
"""

from __future__ import annotations

from collections.abc import Sequence

import simpy

from prism_sim.cluster.network import Network
from prism_sim.training.collectives.base import Collective, Group, shared


class Shift:
    """One message from each member to the next, all around."""

    def __init__(self, group: Group, network: Network) -> None:
        gpus, lines = list(group.gpus), network.lines(group.line)
        ring = zip(gpus, [*gpus[1:], gpus[0]], strict=True)
        hops = [network.hop(a, b, line) for a, b in ring for line in lines]
        self._lines = len(lines)
        self._fabric = network.fabric
        self._latency_ns = round(max(hop.latency_ns for hop in hops))
        self._bundle = network.fabric.templates.add_bundle([hop.template for hop in hops])

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Pass ``size_bytes`` on now; see :class:`~.base.Collective`."""
        part = shared(size_bytes, self._lines)
        self._fabric.transfer(self._bundle, part, self._latency_ns, event)


def shift(group: Group, network: Network) -> list[Collective]:
    """A shift by one around the group."""
    return [Shift(group, network)] if len(group.gpus) > 1 else []

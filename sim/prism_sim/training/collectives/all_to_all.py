"""All-to-all: every rank sends every other one an equal part of its buffer, all at once.

Nothing couples the flows but the links they share, so they are flows of their own: each ends
when it ends, and the exchange with the last of them. Each member sends (n - 1) / n of its
buffer (nccl-tests' bus bandwidth factor).
"""

from __future__ import annotations

from collections.abc import Sequence

import simpy

from prism_sim.cluster.network import Network
from prism_sim.training.collectives.base import Collective, Group, shared


class AllToAll:
    """All pairs of one group."""

    def __init__(self, group: Group, network: Network) -> None:
        gpus = group.gpus
        lines = network.lines(group.line)
        hops = [network.hop(a, b, line) for a in gpus for b in gpus if a != b for line in lines]
        self._pieces = len(gpus) * len(lines)
        self._fabric = network.fabric
        self._latency_ns = round(max(hop.latency_ns for hop in hops))
        self._bundle = network.fabric.templates.add_bundle([hop.template for hop in hops])

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Exchange now; see :class:`~.base.Collective`."""
        part = shared(size_bytes, self._pieces)
        self._fabric.transfer(self._bundle, part, self._latency_ns, event)


def all_to_all(group: Group, network: Network) -> list[Collective]:
    """The exchange among all members of the group."""
    return [AllToAll(group, network)] if len(group.gpus) > 1 else []

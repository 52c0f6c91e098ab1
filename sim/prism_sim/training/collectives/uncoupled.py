"""Messages that start together and are coupled by nothing but the links they share.

Each is a flow of its own and ends when it ends; the exchange is over when the last one has
arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import simpy

from prism_sim.cluster.network import Connection, Network
from prism_sim.training.collectives.base import shared


class Uncoupled:
    """Equal messages between given pairs of GPUs.

    Parameters
    ----------
    pairs : who sends to whom.
    connection : on whose behalf; every queue pair of a connection carries an equal part.
    parts : how many messages a rank's buffer makes.
    """

    def __init__(
        self, pairs: Iterable[tuple[int, int]], connection: Connection, parts: int, network: Network
    ) -> None:
        connections = network.queue_pairs(connection)
        hops = [network.hop(a, b, one) for a, b in pairs for one in connections]
        self._pieces = parts * len(connections)
        self._fabric = network.fabric
        self._bundle, self._latency_ns = network.bundle(hops)

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Send everything now; see :class:`~.base.Collective`."""
        piece = shared(size_bytes, self._pieces)
        self._fabric.transfer(self._bundle, piece, self._latency_ns, event)

"""Messages that start together; only shared links couple them.

Each is a flow of its own. The exchange ends with the arrival of the last one.
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
    pairs : sender and receiver of each message.
    connection : the owner; every queue pair of a connection carries an equal part.
    parts : number of messages in a rank's buffer.
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

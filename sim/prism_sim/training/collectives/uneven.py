"""An all-to-all in which every pair exchanges a different amount.

Each member divides its buffer by the shares of the exchange. Its own share is not sent. The
exchange ends with the last flow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.cluster.network import Hop, Network
from prism_sim.training.collectives.base import Group, shared
from prism_sim.training.collectives.uncoupled import lone_messages


class UnevenAllToAll:
    """All pairs of one group, each with its own connection and size."""

    def __init__(self, group: Group, network: Network) -> None:
        self._network = network
        connections = network.queue_pairs(group.connection)
        self._connections = len(connections)
        self._bundles: list[tuple[int, int, int, int]] = []
        self._hops: list[tuple[int, int, Hop]] = []
        for i, a in enumerate(group.gpus):
            for j, b in enumerate(group.gpus):
                if i != j:
                    hops = [network.hop(a, b, connection) for connection in connections]
                    self._bundles.append((i, j, *network.bundle(hops)))
                    self._hops += [(i, j, hop) for hop in hops]

    def exchange(self, size_bytes: int, share: NDArray[np.float64], event: simpy.Event) -> None:
        """Send ``share[i, j]`` of member i's ``size_bytes`` to member j; ``event`` at the end."""
        env, fabric = self._network.env, self._network.fabric
        ends = []
        for i, j, bundle, latency_ns in self._bundles:
            ends.append(env.event())
            size = max(1, round(size_bytes * float(share[i, j])))
            fabric.transfer(bundle, shared(size, self._connections), latency_ns, ends[-1])
        over = env.all_of(ends)
        assert over.callbacks is not None
        over.callbacks.append(lambda _: env.fire(event))

    def abandon(self, size_bytes: int, share: NDArray[np.float64], ready_ns: Sequence[int]) -> None:
        """Write what was sent between members; see :class:`~.base.PartialCollective`."""
        every = [max(1, round(size_bytes * float(share[i, j]))) for i, j, _ in self._hops]
        sizes = np.array([shared(size, self._connections) for size in every])
        starts_ns = np.array([max(ready_ns[i], ready_ns[j]) for i, j, _ in self._hops])
        hops = [hop for _, _, hop in self._hops]
        self._network.observer.observe(lone_messages(hops, sizes, starts_ns, self._network))

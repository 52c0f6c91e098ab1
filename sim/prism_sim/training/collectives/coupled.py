"""Hops that move at one pace, as one entity of the fabric.

No hop of a ring (or of a pipelined tree) can run ahead of the chunks that reach it, so in
the fluid limit all hops move at the pace of the slowest, and one entity over all their links
is exact. What a switch sees is finer: on every hop a train of bursts, one a chunk. A burst
lasts as long as the hop would need by itself; then the hop waits for the next chunk.

The time a hop would need by itself follows from what the links offer when the collective
ends: on each link the larger of a fair share among those that use it and what they leave. Hops
of one collective that hashing put on one link send at once, and share it as others would.

Which hop is slow can be told from its records only where the waiting of the others can be
seen. A train whose waits are shorter than the telemetry's idle gap becomes one record, and
then all hops of a collective look alike: same begin, same end, same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmprism.numerics.compiled import compiled
from prism_sim.cluster.fabric import Fabric, Moved
from prism_sim.cluster.network import Hop
from prism_sim.cluster.state import Int64s, Net
from prism_sim.cluster.wire import TRAIN


class CoupledHops:
    """The hops of one collective, ready to run as one entity.

    Attributes
    ----------
    route : of each hop, shape (hops,).
    latency_ns : of each hop, shape (hops,).
    ptr, links : hop i takes the links ``links[ptr[i]:ptr[i + 1]]``.
    hops_on : how many of the hops take each of ``links``.
    bundle : what to hand to the fabric.
    """

    def __init__(self, hops: Sequence[Hop], fabric: Fabric) -> None:
        self._fabric = fabric
        self._of_hop = [hop.links for hop in hops]
        self.route = np.array([hop.route for hop in hops], np.int32)
        self.latency_ns = np.array([hop.latency_ns for hop in hops], float)
        self._lay()
        fabric.on_reroute.append(self._move)

    def _lay(self) -> None:
        links = [link for way in self._of_hop for link in way]
        self.links = np.array(links, np.int64)
        _, at, times = np.unique(self.links, return_inverse=True, return_counts=True)
        self.hops_on = times[at].astype(np.int64)
        self.ptr = np.cumsum([0] + [len(way) for way in self._of_hop])
        templates = self._fabric.templates
        self.bundle = templates.add_bundle([templates.add(links)])

    def _move(self, moved: Moved) -> None:
        """Take the links that the hops' routes take now."""
        if moved.keys() & set(self.route.tolist()):
            ways = zip(self.route.tolist(), self._of_hop, strict=True)
            self._of_hop = [tuple(moved.get(route, way)) for route, way in ways]
            self._lay()

    def __len__(self) -> int:
        return len(self.route)

    def own_ns(self, chunk_bytes: int) -> NDArray[np.float64]:
        """How long each hop would need for a chunk by itself [ns], shape (hops,)."""
        rate = np.empty(len(self))
        own_rates(self._fabric.net, self.ptr, self.links, self.hops_on, rate)
        return chunk_bytes / rate

    def trains(
        self,
        start_ns: NDArray[np.floating[Any]],
        own_ns: NDArray[np.float64],
        period_ns: float,
        bursts: int,
        burst_bytes: int,
    ) -> NDArray[np.void]:
        """A train of ``bursts`` on every hop, from its ``start_ns`` on; nothing early."""
        trains = np.zeros(len(self), TRAIN)
        trains["route"] = self.route
        trains["start_ns"] = start_ns
        trains["burst_ns"] = np.minimum(own_ns, period_ns)
        trains["period_ns"] = period_ns
        trains["bursts"] = bursts
        trains["burst_bytes"] = burst_bytes
        return trains


@compiled
def own_rates(
    net: Net, ptr: Int64s, links: Int64s, hops_on: Int64s, rate: NDArray[np.float64]
) -> None:
    """What each hop's links would give a flow of its own [bytes/ns], into ``rate``."""
    for hop in range(len(rate)):
        rate[hop] = np.inf
        for i in range(ptr[hop], ptr[hop + 1]):
            at = links[i]
            own, load = float(hops_on[i]), 0.0
            weight = own
            u = net.link[at]["first"]
            while u >= 0:
                weight += net.use[u]["weight"]
                load += net.use[u]["weight"] * net.entity[net.use[u]["entity"]]["rate"]
                u = net.use[u]["next"]
            capacity = net.link[at]["capacity"]
            rate[hop] = min(rate[hop], max(capacity / weight, (capacity - load) / own))

"""Ring collectives: each of n ranks passes chunks to the next, n - 1 or 2 (n - 1) times.

A ring is one entity of the fabric, not n flows: no hop can run ahead of the chunks that
reach it, so in the fluid limit all hops move at the pace of the slowest. Per step of the
ring, with c_i the time hop *i* needs for a chunk and L_i its latency, the time between
one chunk and the next is

    period = max(max_i c_i, mean_i (c_i + L_i))

(the largest mean cycle of the max-plus recursion "a hop sends chunk k when it has sent
chunk k - 1 and has received it from the hop before": either one hop is the bottleneck and
hides every latency, or a chunk travels all the way round without ever waiting). K steps take
K periods; equal hops give the textbook K (c + L). The start-up transient is left out: it
is at most one round of the ring in a whole collective when hops differ, and nil when they
are equal.

A switch sees a train of bursts on every hop: each chunk takes the hop's own time, then the
hop waits for the next. Where the wait is shorter than what cuts a record, one record
covers the whole train and all hops look alike. So which hop is slow can be told, in principle,
only if the telemetry is fine enough to see the others wait.

References: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009;
Baccelli et al., Synchronization and Linearity, 1992, for the cycle mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import simpy

from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.collector import Collector, Train

OPERATIONS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
"""Rounds of n - 1 steps that each operation takes."""

NO_ROUTE = -1
"""The route of a hop inside a server: NVLink, which no switch sees."""


@dataclass(frozen=True)
class Hop:
    """One rank's way to the next: its route (or NO_ROUTE), links and latency."""

    route: int
    links: tuple[int, ...]
    latency_ns: float


class Ring:
    """One ring of ranks over given hops.

    Parameters
    ----------
    hops : the way from each rank to the next, all around.
    fabric, collector : where its bytes move, and who sees them.
    """

    def __init__(self, hops: Sequence[Hop], fabric: Fabric, collector: Collector) -> None:
        self.hops = tuple(hops)
        self._fabric = fabric
        self._collector = collector
        self._template = fabric.templates.add([link for hop in hops for link in hop.links])

    def start(self, operation: str, chunk_bytes: int, event: simpy.Event) -> None:
        """Run ``operation`` with chunks of ``chunk_bytes`` now; ``event`` fires at its end."""
        count = OPERATIONS[operation] * (len(self.hops) - 1)

        def over(start_ns: int, end_ns: int) -> int:
            return self._over(start_ns, end_ns, chunk_bytes, count)

        self._fabric.transfer([self._template], chunk_bytes * count, 0, event, over)

    def _over(self, start_ns: int, end_ns: int, chunk_bytes: int, count: int) -> int:
        """Write the trains of all hops; returns the latency that the last chunk adds [ns]."""
        own_ns = [self._own_ns(hop, chunk_bytes) for hop in self.hops]
        travel_ns = sum(own_ns) + sum(hop.latency_ns for hop in self.hops)
        slowest_ns = (end_ns - start_ns) / count
        period_ns = max(slowest_ns, travel_ns / len(self.hops))
        self._collector.see(
            Train(hop.route, start_ns, period_ns, own, count, chunk_bytes)
            for hop, own in zip(self.hops, own_ns, strict=True)
            if hop.route != NO_ROUTE
        )
        return round(count * (period_ns - slowest_ns))

    def _own_ns(self, hop: Hop, chunk_bytes: int) -> float:
        return chunk_bytes / min(map(self._fabric.capacity_of, hop.links))


def rings_of(
    gpus: Sequence[int],
    job: str,
    kind: str,
    layout: Layout,
    router: Router,
    fabric: Fabric,
    collector: Collector,
    queue_pair: int = 0,
) -> list[Ring]:
    """The rings over ``gpus``, in this order, that share a collective's bytes evenly.

    One ring for every NIC that each server of the group can contribute. Ring *c* enters and
    leaves a server by the server's *c*-th NIC, so that rails are not crossed, and passes
    through the server's other members over NVLink. (NCCL builds its rings this way, with
    ``NCCL_CROSS_NIC=0``.)
    """
    servers: dict[int, list[int]] = {}
    for gpu in gpus:
        servers.setdefault(layout.server_of_gpu(gpu), []).append(gpu)
    nics = [sorted({layout.nic_of_gpu(g) for g in members}) for members in servers.values()]
    channels = min(len(n) for n in nics) if len(servers) > 1 else 1
    rings = []
    for c in range(channels):
        hops: list[Hop] = []
        members = list(servers.values())
        for i, local in enumerate(members):
            hops += [_nvlink_hop(a, b, layout) for a, b in pairwise(local)]
            after = (i + 1) % len(members)
            if len(members) > 1:
                route = router.route(nics[i][c], nics[after][c], job, kind, queue_pair)
                hops.append(Hop(route, tuple(router.links[route]), router.latency_ns([route])))
            elif len(local) > 1:
                hops.append(_nvlink_hop(local[-1], local[0], layout))
        rings.append(Ring(hops, fabric, collector))
    return rings


def _nvlink_hop(src_gpu: int, dst_gpu: int, layout: Layout) -> Hop:
    links = layout.nvlink(src_gpu, dst_gpu)
    return Hop(NO_ROUTE, tuple(links), layout.cluster.nvlink_latency_ns)

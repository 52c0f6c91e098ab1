"""Paths of traffic from one GPU to another, over NVLink or the network.

A :class:`Network` has the fabric, which sends bytes, the layout and the router, which decide their
paths, and the observer of the trains. Jobs and collectives get their hops from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import GBPS, Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import HIDDEN
from prism_sim.cluster.wire import Observer


@dataclass(frozen=True)
class Hop:
    """The path from one GPU or NIC to another.

    Attributes
    ----------
    route : number of its route, or HIDDEN for NVLink, which no switch observes.
    links : its directed links.
    latency_ns : time from the first link to the last.
    template : the template of a single flow on it.
    """

    route: int
    links: tuple[int, ...]
    latency_ns: float
    template: int = HIDDEN


@dataclass(frozen=True)
class Connection:
    """The owner of a connection. Between any two NICs, each owner has its own 5-tuple.

    Attributes
    ----------
    job : name of the job.
    kind : kind of traffic, as in the truth.
    queue_pair : number of the connection among those between the same two NICs.
    """

    job: str
    kind: str
    queue_pair: int = 0


class Bundle(NamedTuple):
    """Flows that start together, one per hop, and share one event at their end.

    Attributes
    ----------
    number : of the bundle in the fabric.
    latency_ns : the largest latency of the hops.
    """

    number: int
    latency_ns: int


@dataclass(frozen=True)
class Network:
    """The parts of the cluster that traffic needs."""

    env: Clock
    layout: Layout
    router: Router
    fabric: Fabric
    observer: Observer

    def queue_pairs(self, connection: Connection) -> list[Connection]:
        """One connection for each queue pair of ``connection``; they share its bytes evenly."""
        count = self.layout.cluster.connections
        return [
            replace(connection, queue_pair=connection.queue_pair * count + i) for i in range(count)
        ]

    def bundle(self, hops: Sequence[Hop]) -> Bundle:
        """Flows over all of ``hops`` at once."""
        number = self.fabric.templates.add_bundle([hop.template for hop in hops])
        return Bundle(number, round(max(hop.latency_ns for hop in hops)))

    def cap(self, size_bytes: int, servers: int) -> float:
        """Largest rate of a hop of a collective [bytes/ns]."""
        cluster = self.layout.cluster
        ratio = EFFICIENCIES[cluster.efficiency](size_bytes, servers)
        return cluster.port_gbps * GBPS * ratio if ratio < 1 else math.inf

    def hop(self, src_gpu: int, dst_gpu: int, connection: Connection) -> Hop:
        """The path from GPU to GPU: NVLink inside a domain, NICs between domains."""
        layout = self.layout
        if layout.domain_of_gpu(src_gpu) == layout.domain_of_gpu(dst_gpu):
            links = layout.nvlink(src_gpu, dst_gpu)
            template = self.fabric.templates.add(links)
            return Hop(HIDDEN, tuple(links), layout.cluster.nvlink_latency_ns, template)
        return self.nic_hop(layout.nic_of_gpu(src_gpu), layout.nic_of_gpu(dst_gpu), connection)

    def nic_hop(self, src_nic: int, dst_nic: int, connection: Connection) -> Hop:
        """The path from NIC to NIC, over the network."""
        router = self.router
        route = router.route(
            src_nic, dst_nic, connection.job, connection.kind, connection.queue_pair
        )
        latency_ns = router.routes.latency_ns[route]
        return Hop(route, tuple(router.links_of(route)), latency_ns, router.template(route))


# The fraction of line rate that a collective reaches, by its size and number of servers.
#
# SimAI publishes measured ratios (``nic_ratio.csv``): at 16 MiB 0.32 over 2 servers, 0.13 over 8,
# 0.044 over 32; at 1 GiB 0.92, 0.90 and 0.74. They follow
#
#     1 / ratio = 1.02 + A (servers / 2)^0.848 / size,    A = 33.1 MiB
#
# within 4 %: an overhead that is largest for small buffers and many servers. All other values are
# interpolated or extrapolated.

MIB = 2**20


def measured(size_bytes: int, servers: int) -> float:
    """The fitted formula.

    >>> round(measured(16 * MIB, 8), 2), round(measured(1024 * MIB, 32), 2)
    (0.13, 0.74)
    """
    overhead_bytes = 33.1 * MIB * (max(servers, 2) / 2) ** 0.848
    return float(1 / (1.02 + overhead_bytes / max(size_bytes, 1)))


EFFICIENCIES: dict[str, Callable[[int, int], float]] = {
    "ideal": lambda *_: 1.0,
    "measured": measured,
}
"""Functions from (buffer [bytes], servers) to the fraction of line rate, by name in a scenario."""

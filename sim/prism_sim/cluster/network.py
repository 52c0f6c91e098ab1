"""The cluster as traffic finds it: from one GPU to another, over NVLink or the network.

A :class:`Network` holds together the fabric that carries bytes, the layout and the router that
decide their paths, and the observer that sees them. Jobs and collectives ask it for hops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from prism_sim.clock import Clock
from prism_sim.cluster.efficiency import EFFICIENCIES
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
    route : number of its route, or HIDDEN where no switch sees it (NVLink).
    links : directed links it takes.
    latency_ns : time from the first of them to the last.
    template : what a single flow on it uses.
    """

    route: int
    links: tuple[int, ...]
    latency_ns: float
    template: int = HIDDEN


@dataclass(frozen=True)
class Connection:
    """Whose traffic a connection carries. Each has a 5-tuple of its own between any two NICs.

    Attributes
    ----------
    job : name of the job.
    kind : kind of traffic, as the truth calls it.
    queue_pair : number of the connection among those between the same two NICs.
    """

    job: str
    kind: str
    queue_pair: int = 0


class Bundle(NamedTuple):
    """Flows that start together, one a hop, and are waited for together.

    Attributes
    ----------
    number : what the fabric knows them by.
    latency_ns : the longest time that a packet takes over any of the hops.
    """

    number: int
    latency_ns: int


@dataclass(frozen=True)
class Network:
    """Everything that traffic needs of the cluster."""

    env: Clock
    layout: Layout
    router: Router
    fabric: Fabric
    observer: Observer

    def queue_pairs(self, connection: Connection) -> list[Connection]:
        """One connection for each queue pair of ``connection``; they share its bytes evenly."""
        count = self.layout.cluster.queue_pairs
        return [
            replace(connection, queue_pair=connection.queue_pair * count + i) for i in range(count)
        ]

    def bundle(self, hops: Sequence[Hop]) -> Bundle:
        """Flows over all of ``hops`` at once."""
        number = self.fabric.templates.add_bundle([hop.template for hop in hops])
        return Bundle(number, round(max(hop.latency_ns for hop in hops)))

    def cap(self, size_bytes: int, servers: int) -> float:
        """Rate that a hop of a collective reaches at most [bytes/ns]."""
        cluster = self.layout.cluster
        ratio = EFFICIENCIES[cluster.efficiency](size_bytes, servers)
        return cluster.nic_gbps * GBPS * ratio if ratio < 1 else math.inf

    def hop(self, src_gpu: int, dst_gpu: int, connection: Connection) -> Hop:
        """From GPU to GPU: NVLink inside a server, their NICs between servers."""
        layout = self.layout
        if layout.server_of_gpu(src_gpu) == layout.server_of_gpu(dst_gpu):
            links = layout.nvlink(src_gpu, dst_gpu)
            template = self.fabric.templates.add(links)
            return Hop(HIDDEN, tuple(links), layout.cluster.nvlink_latency_ns, template)
        return self.nic_hop(layout.nic_of_gpu(src_gpu), layout.nic_of_gpu(dst_gpu), connection)

    def nic_hop(self, src_nic: int, dst_nic: int, connection: Connection) -> Hop:
        """From NIC to NIC, over the network."""
        router = self.router
        route = router.route(
            src_nic, dst_nic, connection.job, connection.kind, connection.queue_pair
        )
        latency_ns = router.routes.latency_ns[route]
        return Hop(route, tuple(router.links[route]), latency_ns, router.template(route))

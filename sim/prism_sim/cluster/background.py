"""Traffic of no training job: services, storage rebalancing, other tenants.

Flows begin as a Poisson process. Sizes are lognormal, which is close to measured data-centre
flows. Source and destination are drawn from the given servers. Flows between the same two NICs
share a connection.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import numpy as np
import simpy

from prism_common.kinds import OTHER
from prism_sim.cluster.network import Bundle, Connection, Network
from prism_sim.draws import Draws
from prism_sim.scenario.habits import Background
from prism_sim.scenario.names import server_index


def traffic(
    model: Background, network: Network, draws: Draws
) -> Generator[simpy.Event, object, None]:
    """The endless SimPy process of one kind of background traffic."""
    cluster, env = network.layout.cluster, network.env
    senders = _numbers(model.servers or ()) or list(range(cluster.servers))
    targets = _numbers([model.to] if model.to else ()) or list(range(cluster.servers))
    bundles: dict[tuple[int, int], Bundle] = {}
    flow = 0
    while True:
        stream = draws.stream("background", model.name, flow)
        flow += 1
        yield env.timeout(max(1, round(stream.exponential(1e9 / model.flows_per_s))))
        size = max(1, round(model.median_bytes * np.exp(model.sigma * stream.standard_normal())))
        src = senders[stream.integers(len(senders))]
        dst = targets[stream.integers(len(targets))]
        if src == dst:
            continue  # no flow record inside a server
        rail = int(stream.integers(cluster.nics_per_server))
        pair = network.layout.nic(src, rail), network.layout.nic(dst, rail)
        if pair not in bundles:
            hop = network.nic_hop(*pair, Connection(model.name, OTHER))
            bundles[pair] = network.bundle([hop])
        number, latency_ns = bundles[pair]
        network.fabric.transfer(number, size, latency_ns, env.event())


def _numbers(names: Iterable[str]) -> list[int]:
    return [number for number in map(server_index, names) if number is not None]

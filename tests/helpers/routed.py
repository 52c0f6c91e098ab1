"""Flows between the NICs of a cluster under any routing, and the exact share of every link."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

from fabric_bench import WatchedFabric
from prism_sim.clock import Clock
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.toolkit import Cluster, Draws


class Wires:
    """The links of a cluster, and flows between its NICs."""

    def __init__(self, cluster: Cluster, seed: int = 0) -> None:
        self.env, self.layout = Clock(), Layout(cluster)
        templates = Templates()
        self.router = Router(self.layout, templates, Draws(seed))
        self.fabric = WatchedFabric(self.env, self.layout.capacity, templates)

    def send(self, src: int, dst: int, size_bytes: int = 10**12, queue_pair: int = 0) -> int:
        """Send from now on; returns the template of the route."""
        route = self.router.route(src, dst, "a", "dp", queue_pair)
        template = self.router.template(route)
        bundle = self.fabric.templates.add_bundle([template])
        self.fabric.transfer(bundle, size_bytes, 0, self.env.event())
        return template

    def rates(self) -> dict[int, float]:
        """Present rate by template [bytes/ns]."""
        active = self.fabric.active()
        return dict(zip(active["template"].tolist(), active["rate"].tolist(), strict=True))

    def run(self) -> None:
        self.env.run(until=self.env.now + 1)


def even_shares(
    layout: Layout, src: int, dst: int, failed: set[tuple[int, int]]
) -> dict[int, Fraction]:
    """The share of a message on every link, if each switch splits it evenly."""
    topology, cluster = layout.topology, layout.cluster
    a, b = int(topology.leaf_of_nic[src]), int(topology.leaf_of_nic[dst])
    shares: dict[int, Fraction] = defaultdict(Fraction)
    shares[layout.nic_out(src)] = shares[layout.nic_in(dst)] = Fraction(1)
    if a == b:
        return shares
    apart = topology.pod_of(a) != topology.pod_of(b)
    arriving = [u for u in range(cluster.uplinks) if (b, u) not in failed]
    into = defaultdict(list)
    for uplink in arriving:
        into[topology.spine_of(b, uplink)].append(uplink)
    ups = [
        u for u in range(cluster.uplinks)
        if (a, u) not in failed and (apart or topology.spine_of(a, u) in into)
    ]  # fmt: skip
    at: dict[int, Fraction] = defaultdict(Fraction)
    for uplink in ups:
        shares[layout.up(a, uplink)] += Fraction(1, len(ups))
        at[topology.spine_of(a, uplink)] += Fraction(1, len(ups))
    if apart:
        at = _over_cores(layout, at, sorted(into), shares)
    for spine, share in at.items():
        for uplink in into[spine]:
            shares[layout.down(b, uplink)] += share / len(into[spine])
    return shares


def _over_cores(
    layout: Layout, at: dict[int, Fraction], near: list[int], shares: dict[int, Fraction]
) -> dict[int, Fraction]:
    topology = layout.topology
    cores: dict[int, Fraction] = defaultdict(Fraction)
    for spine, share in at.items():
        for uplink in range(topology.core_uplinks):
            shares[layout.core_up(spine, uplink)] += share / topology.core_uplinks
            cores[topology.core_of(spine, uplink)] += share / topology.core_uplinks
    after: dict[int, Fraction] = defaultdict(Fraction)
    for core, share in cores.items():
        own = topology.uplinks_to_core(core)
        for spine in near:
            after[spine] += share / len(near)
            for uplink in own:
                shares[layout.core_down(spine, uplink)] += share / len(near) / len(own)
    return after


def two_leaves(k: int, routing: Any, servers: int = 1) -> Wires:
    """Two leaves with ``k`` uplinks, which together are as fast as one NIC for each server."""
    fabric = {
        "kind": "tor", "leaf_ports": servers, "uplinks": k, "spines": k,
        "uplink_gbps": 400 * servers / k, "routing": routing,
    }  # fmt: skip
    alone = {"gpus_per_server": 1, "nics_per_server": 1}
    return Wires(Cluster.model_validate({"servers": 2 * servers, **alone, "fabric": fabric}))

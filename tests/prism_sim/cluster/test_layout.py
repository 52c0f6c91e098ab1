"""Placement of jobs, and simulations that do not end."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import EFFICIENCIES, MIB, measured
from prism_sim.cluster.placement import STRATEGIES
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.ways import mix
from prism_sim.cluster.wire import flows
from prism_sim.scenario.job import Strategy
from prism_sim.toolkit import Cluster, Draws

FABRICS = {
    "rail": {"kind": "rail", "leaf_ports": 4, "spines": 2},
    "tor": {"kind": "tor", "leaf_ports": 8, "spines": 4, "uplinks": 8},
    "pods": {"kind": "tor", "leaf_ports": 8, "spines": 2, "pod_leaves": 2, "cores": 3},
}


@pytest.fixture(params=FABRICS)
def layout(request):
    return Layout(Cluster(servers=8, nics_per_server=4, fabric=FABRICS[request.param]))


def router_of(layout, seed=0):
    return Router(layout, Templates(), Draws(seed))


def test_three_tiers_cross_a_core_only_between_pods():
    layout = Layout(Cluster(servers=8, nics_per_server=4, fabric=FABRICS["pods"]))
    router = router_of(layout)
    within = router.route(0, 8, "a", "dp")  # leaf000 to leaf001: one pod
    across = router.route(0, 16, "a", "dp")  # leaf000 to leaf002: the other pod
    tiers = [[name.rstrip("0123456789") for name in router.paths[router.routes.path[r]].split("|")]
             for r in (within, across)]  # fmt: skip
    assert tiers == [["leaf", "spine", "leaf"], ["leaf", "spine", "core", "spine", "leaf"]]


def test_a_connection_keeps_its_route_and_each_queue_pair_has_its_own(layout):
    router = router_of(layout)
    last = len(layout.addresses) - 1
    assert router.route(0, last, "a", "dp") == router.route(0, last, "a", "dp")
    pairs = [router.route(0, last, "a", "dp", queue_pair) for queue_pair in range(8)]
    assert len(set(pairs)) == 8
    assert len({router.routes.src_port[r] for r in pairs}) > 1


def test_hashing_spreads_connections_evenly_over_uplinks():
    """Chi-squared of 4,000 connections over 8 uplinks: 7 degrees of freedom, 99.9 % below 24.3."""
    fabric = {"kind": "tor", "leaf_ports": 32, "spines": 8, "uplinks": 8}
    layout = Layout(Cluster(servers=64, nics_per_server=1, gpus_per_server=1, fabric=fabric))
    router = router_of(layout)
    first_hop = []
    for src in range(32):
        for i in range(125):
            route = router.route(src, 32 + i % 32, "a", "dp", queue_pair=i)
            first_hop.append(router.links[route][1] - layout.up(0, 0))
    counts = np.bincount(first_hop, minlength=8)
    expected = len(first_hop) / 8
    assert ((counts - expected) ** 2 / expected).sum() < 24.3


def test_switches_hash_differently_so_that_tiers_are_not_polarised():
    words = [(src, dst, 50_000, 4791, 17) for src in range(40) for dst in range(40, 80)]
    a = [mix(1, *w) % 4 for w in words]
    b = [mix(2, *w) % 4 for w in words]
    same = np.mean(np.array(a) == np.array(b))
    assert 0.2 < same < 0.3  # independent choices among four agree in a quarter of cases


def test_gpus_share_nics_where_there_are_fewer():
    layout = Layout(Cluster(servers=2, gpus_per_server=8, nics_per_server=2))
    assert [layout.nic_of_gpu(g) for g in range(16)] == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    gpus = [endpoint["gpus"] for endpoint in layout.topology.to_json()["endpoints"]]
    assert gpus == [[0, 1, 2, 3], [4, 5, 6, 7]] * 2


@pytest.mark.parametrize(
    ("size", "servers", "published"),
    [(16, 2, 0.32), (16, 8, 0.13), (16, 32, 0.044), (1024, 2, 0.92), (1024, 8, 0.90),
     (1024, 32, 0.74)],
)  # fmt: skip
def test_measured_efficiency_is_that_of_the_published_table(size, servers, published):
    assert measured(size * MIB, servers) == pytest.approx(published, rel=0.04)


def test_a_scenario_may_name_every_strategy_and_efficiency_and_no_other():
    assert set(get_args(Strategy)) == set(STRATEGIES)
    assert set(get_args(Cluster.model_fields["efficiency"].annotation)) == set(EFFICIENCIES)


RATE, SIZE = 10.0, 10_000  # bytes per ns, bytes


def sending(stops_ns=None):
    """A fabric in which one flow is under way, whose link stops at a time."""
    env, templates = Clock(), Templates()
    fabric = Fabric(env, np.array([RATE]), templates)
    bundle = templates.add_bundle([templates.add([0], route=7)])
    fabric.transfer(bundle, SIZE, 0, env.event())

    def stop():
        yield env.timeout(stops_ns)
        fabric.set_capacity(0, 1e-9 * RATE)

    if stops_ns is not None:
        env.process(stop())
    return env, fabric


@pytest.mark.parametrize(
    ("stops_ns", "until_ns", "ended_ns"),
    [(None, 300, 300), (400, 300, 300), (400, 10**9, 400), (400, 600 * 10**9, 400)],
)
def test_the_record_ends_with_the_last_byte(stops_ns, until_ns, ended_ns):
    env, fabric = sending(stops_ns)
    env.run(until=until_ns)
    (row,) = flows(fabric.unfinished())
    assert (row["start_ns"], row["burst_ns"], row["route"]) == (0, ended_ns, 7)
    assert row["burst_bytes"] == pytest.approx(RATE * ended_ns, rel=0.01)


def test_a_transfer_that_ended_is_not_counted_twice():
    env, fabric = sending()
    env.run(until=5_000)
    assert fabric.drain()["bytes"].tolist() == [SIZE]
    assert fabric.unfinished().size == 0

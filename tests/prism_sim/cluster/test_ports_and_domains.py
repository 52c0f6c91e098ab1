"""Ports, planes, NVLink domains and fabrics without spines: paths, placement and topology."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from one_ring import Unobserved
from prism_common.errors import UserError
from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Connection, Network
from prism_sim.cluster.placement import Placement
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import HIDDEN, Templates
from prism_sim.cluster.topology import ClusterTopology
from prism_sim.scenario.wirings import WIRINGS
from prism_sim.toolkit import Cluster, Draws, Job
from tiny import TINY_MODEL


def cluster(kind: str = "rail", planes: int = 1, **more: Any) -> Cluster:
    """Eight servers of two GPUs and NICs, four servers a leaf."""
    fabric = {"kind": kind, "leaf_ports": 4, "spines": 2, "planes": planes}
    own = {"servers": 8, "gpus_per_server": 2, "nics_per_server": 2}
    return Cluster.model_validate({**own, "fabric": fabric, **more})


def ends_of(content: dict[str, Any]) -> set[tuple[str, str]]:
    return {(link["a"], link["b"]) for link in content["links"]}


def test_the_leaves_of_a_pair_share_spines_and_planes_share_nothing() -> None:
    dual = ClusterTopology(cluster(nic_ports=2))
    assert dual.neighbours("10.0.0.1") == ["leaf000", "leaf001"]
    assert (
        dual.neighbours("leaf000")[:2] == dual.neighbours("leaf001")[:2] == ["spine00", "spine01"]
    )
    planes = ClusterTopology(cluster(nic_ports=2, planes=2))
    assert planes.neighbours("10.0.0.1") == ["leaf000", "leaf004"]
    assert planes.neighbours("leaf000")[:2] == ["spine00", "spine01"]
    assert planes.neighbours("leaf004")[:2] == ["spine02", "spine03"]
    of = {one["name"]: one["plane"] for one in planes.to_json()["switches"]}
    switches = set(of)
    across = [(a, b) for a, b in ends_of(planes.to_json()) if a in switches and of[a] != of[b]]
    assert across == []


def test_a_bond_has_one_endpoint_with_two_cables_and_other_ports_have_one_each() -> None:
    bond = ClusterTopology(cluster(nic_ports=2, planes=2)).to_json()
    assert len(bond["endpoints"]) == 16
    assert {("10.0.0.1", "leaf000"), ("10.0.0.1", "leaf004")} <= ends_of(bond)
    own = ClusterTopology(cluster(nic_ports=2, planes=2, port_addresses="own")).to_json()
    first, second = own["endpoints"][:2]
    assert (first["server"], first["nic"], first["gpus"]) == ("s0000", 0, [0])
    assert (second["server"], second["nic"], second["gpus"]) == ("s0000", 0, [0])
    assert [(one["port"], one["address"], one["switch"]) for one in (first, second)] == [
        (0, "10.0.0.1", "leaf000"),
        (1, "10.0.0.2", "leaf004"),
    ]
    assert {link["gbps"] for link in own["links"] if link["a"].startswith("10.")} == {200}


def test_ports_planes_and_domains_that_are_not_used_are_not_in_the_topology() -> None:
    content = ClusterTopology(cluster()).to_json()
    assert set(content["endpoints"][0]) == {"address", "server", "nic", "gpus", "switch"}
    assert set(content["switches"][0]) == {"name", "tier"}


def test_every_kind_of_fabric_has_a_wiring() -> None:
    assert Cluster.model_json_schema()["$defs"]["FabricConfig"]["properties"]["kind"]["enum"] == [
        *WIRINGS
    ]


def test_servers_of_a_domain_have_its_name() -> None:
    content = ClusterTopology(cluster(nvlink_domain=4)).to_json()
    domains = [one["domain"] for one in content["endpoints"] if one["nic"] == 0]
    assert domains == ["d000", "d000", "d001", "d001", "d002", "d002", "d003", "d003"]


def network(of: Cluster) -> Network:
    templates, layout = Templates(), Layout(of)
    env, router = Clock(), Router(layout, templates, Draws(1))
    return Network(env, layout, router, Fabric(env, layout.capacity, templates), Unobserved())


def test_gpus_of_one_domain_talk_over_nvlink_and_others_over_the_network() -> None:
    net = network(cluster(nvlink_domain=4))
    connection = Connection("a", "dp")
    assert net.hop(0, 3, connection).route == HIDDEN
    assert net.hop(3, 4, connection).route != HIDDEN


def test_queue_pairs_of_a_connection_use_all_ports_and_both_ends_use_the_same_plane() -> None:
    net = network(cluster(nic_ports=2, planes=2))
    hops = [net.nic_hop(0, 8, one) for one in net.queue_pairs(Connection("a", "dp"))]
    leaf = net.layout.leaf_of_nic
    routes = net.router.routes
    assert sorted(int(leaf[routes.src[hop.route]]) for hop in hops) == [0, 4]
    for hop in hops:
        ends = leaf[[routes.src[hop.route], routes.dst[hop.route]]]
        assert len(set(net.layout.topology.plane_of(ends).tolist())) == 1


def test_without_spines_other_rails_are_reached_through_the_domain() -> None:
    net = network(cluster("rail_only", nvlink_domain=4))
    hop = net.hop(0, 7, Connection("a", "pp"))  # position 0 of domain 0 to position 3 of domain 1
    routes = net.router.routes
    assert net.layout.addresses[routes.src[hop.route]] == "10.0.1.2"
    assert net.router.paths[routes.path[hop.route]] == "leaf003"
    assert list(hop.links)[:2] == net.layout.nvlink(0, 3)
    straight = net.hop(0, 4, Connection("a", "pp"))
    assert net.layout.addresses[routes.src[straight.route]] == "10.0.0.1"
    assert ClusterTopology(net.layout.cluster).spines.count == 0


def test_a_leaf_that_fails_moves_its_queue_pairs_to_other_ports_and_back() -> None:
    net = network(cluster(nic_ports=2, planes=2))
    hops = [net.nic_hop(0, 8, one) for one in net.queue_pairs(Connection("a", "dp"))]
    routes, leaf = net.router.routes, net.layout.leaf_of_nic
    before = [[*net.router.links[hop.route]] for hop in hops]
    moved = net.router.fail_leaves([0])
    assert len(moved) == 1
    assert {int(leaf[routes.src[hop.route]]) for hop in hops} == {4}
    net.router.repair_leaves([0])
    assert [net.router.links[hop.route] for hop in hops] == before
    with pytest.raises(UserError, match="no port is left"):
        net.router.fail_leaves([0, 4])
    assert [net.router.links[hop.route] for hop in hops] == before


def test_a_tensor_group_stays_inside_a_domain() -> None:
    of = cluster(nvlink_domain=6, servers=7)  # two whole domains, and one server
    values = {"name": "a", "model": TINY_MODEL, "dp": 2, "tp": 4, "micro_batches": 1, "steps": 1}
    gpus = Placement(of, Draws(0)).place(Job.model_validate(values))
    assert gpus.tolist() == [[[0, 1, 2, 3], [6, 7, 8, 9]]]
    assert len(np.unique(gpus // of.domain_gpus, axis=1)) == 1

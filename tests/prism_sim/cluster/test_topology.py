"""One graph describes the network, and every name of a link agrees with it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fabrics import clusters
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.topology import ClusterTopology, topology_of
from prism_sim.draws import Draws
from prism_sim.scenario.cluster import Cluster

PODS = Cluster.model_validate(
    {"servers": 8, "nics_per_server": 1, "gpus_per_server": 1, "fabric":
     {"kind": "tor", "leaf_ports": 2, "spines": 2, "pod_leaves": 2, "uplinks": 2, "cores": 2}}
)  # fmt: skip


def test_spines_join_the_leaves_of_their_pod_and_cores_join_all_spines() -> None:
    topology = ClusterTopology(PODS)
    assert topology.neighbours("leaf002") == ["spine02", "spine03", "10.0.4.1", "10.0.5.1"]
    assert topology.neighbours("spine02") == ["core00", "core01", "leaf002", "leaf003"]
    assert topology.neighbours("core01") == ["spine00", "spine01", "spine02", "spine03"]
    assert topology.neighbours("10.0.7.1") == ["leaf003"]
    assert topology.neighbours("core02") == topology.neighbours("s0000") == []


def test_a_core_that_no_link_reaches_is_no_part_of_the_network() -> None:
    fabric = PODS.fabric.model_copy(update={"cores": 4, "core_uplinks": 3})
    topology = ClusterTopology(PODS.model_copy(update={"fabric": fabric}))
    assert topology.cores.names == ["core00", "core01", "core02"]


@given(clusters(), st.data())
@settings(deadline=None)
def test_every_cable_joins_neighbouring_tiers_and_every_switch_has_one(
    cluster: Cluster, data: st.DataObject
) -> None:
    topology = topology_of(cluster)
    content = topology.to_json()
    tier = {switch["name"]: switch["tier"] for switch in content["switches"]}
    tier |= {endpoint["address"]: "nic" for endpoint in content["endpoints"]}
    order = ["nic", "leaf", "spine", "core"]
    assert len(tier) == len(topology.names)
    joined: set[str] = set()
    for link in content["links"]:
        assert order.index(tier[link["b"]]) == order.index(tier[link["a"]]) + 1
        joined |= {link["a"], link["b"]}
    assert joined == set(tier)
    assert all(topology.names[topology.node(name) or 0] == name for name in tier)
    for name in data.draw(st.lists(st.sampled_from(sorted(tier)), max_size=5)):
        ends = {(link["a"], link["b"]) for link in content["links"] if name in link.values()}
        assert sorted(topology.neighbours(name)) == sorted(a if b == name else b for a, b in ends)
    up = [link["a"] for link in content["links"] if tier[link["a"]] == "leaf"]
    assert {up.count(leaf) for leaf in topology.leaves.names} == {cluster.uplinks}


@given(clusters(), st.integers(0, 2**32), st.data())
@settings(deadline=None)
def test_every_path_is_a_walk_along_cables_of_the_graph(
    cluster: Cluster, seed: int, data: st.DataObject
) -> None:
    layout = Layout(cluster)
    router = Router(layout, Templates(), Draws(seed))
    nics = st.integers(0, len(layout.addresses) - 1)
    src, dst = data.draw(st.tuples(nics, nics).filter(lambda ends: ends[0] != ends[1]))
    route = router.route(src, dst, "a", "dp")
    names, links = layout.topology.names, router.links[route]
    walk = [names[layout.ends[links[0]][0]], *(names[layout.ends[link][1]] for link in links)]
    path = router.paths[router.routes.path[route]].split("|")
    assert walk == [layout.addresses[src], *path, layout.addresses[dst]]
    starts = [layout.ends[link][0] for link in links[1:]]
    assert starts == [layout.ends[link][1] for link in links[:-1]]
    rates = {(link["a"], link["b"]): link["gbps"] for link in layout.topology.to_json()["links"]}
    for link, (a, b) in zip(links, pairwise(walk), strict=True):
        expected = rates.get((a, b), rates.get((b, a)))
        np.testing.assert_allclose(8 * layout.capacity[link], expected, rtol=1e-6)


def test_questions_about_a_cluster_of_any_size_are_answered_fast() -> None:
    """Checks come before any estimate of memory, so they must not list all cables."""
    fabric = {"kind": "tor", "leaf_ports": 64, "uplink_gbps": 1e-6, "pod_leaves": 8, "cores": 9}
    topology = ClusterTopology(Cluster.model_validate({"servers": 65536, "fabric": fabric}))
    assert topology.neighbours("spine00")[-1] == "leaf007"
    assert topology.node("spine4096") is None

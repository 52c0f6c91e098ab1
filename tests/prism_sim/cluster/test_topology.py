"""Switches, links and routes of a fabric."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrics import clusters
from prism_common.errors import UserError
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.topology import ClusterTopology
from prism_sim.cluster.ways import FAILED
from prism_sim.toolkit import Cluster, Draws, topology_of

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


def _router(cluster: Cluster) -> Router:
    """A router with some connections from and to every NIC."""
    router = Router(Layout(cluster), Templates(), Draws(3))
    nics = len(router.layout.addresses)
    for src in range(nics):
        for far in (1, 2, nics // 2):
            if far % nics:
                router.route(src, (src + far) % nics, "a", "dp")
    return router


def _state(router: Router) -> tuple[Any, ...]:
    """All that later paths and records depend on."""
    used = int(router.templates.ptr[router.templates.count])
    kept = (router.failed(), router.links, router.routes, router.paths)
    return (*copy.deepcopy(kept), router.templates.via["link"][:used].tolist())


def _refuse_to_open(cluster: Cluster) -> None:
    """A connection beyond a leaf without uplinks is refused, and leaves no trace."""
    router = Router(Layout(cluster), Templates(), Draws(3))
    router.fail(0, range(cluster.uplinks))
    far = [nic for nic, of in enumerate(router.layout.leaf_of_nic) if of]
    before = _state(router)
    if far:
        with pytest.raises(UserError, match="no uplink is left"):
            router.route(0, far[0], "a", "dp")
    assert _state(router) == before


@given(clusters(), st.data())
def test_a_refused_change_leaves_everything_as_it_was(
    cluster: Cluster, data: st.DataObject
) -> None:
    router = _router(cluster)
    uplinks = range(cluster.uplinks)
    _refuse_to_open(cluster)
    partly = data.draw(st.integers(0, cluster.uplinks - 1))
    router.fail(0, uplinks[:partly])
    before = _state(router)
    leaf = data.draw(st.integers(0, cluster.leaves - 1))
    far = [nic for nic, of in enumerate(router.layout.leaf_of_nic) if of != leaf]
    near = [nic for nic, of in enumerate(router.layout.leaf_of_nic) if of == leaf]
    if not far:
        return
    ends = data.draw(st.permutations([far[0], near[0]]))
    router.route(ends[0], ends[1], "b", "dp")
    before = _state(router)
    with pytest.raises(UserError, match="no uplink is left"):
        router.fail(leaf, uplinks)
    assert _state(router) == before
    gone = router.failed()
    gone.update((leaf, uplink, FAILED) for uplink in uplinks)
    with pytest.raises(UserError, match="no uplink is left"):
        router.path_of(ends[0], ends[1], 50_000, gone)
    assert _state(router) == before


@given(clusters(), st.data())
def test_no_connection_uses_a_failed_uplink_and_repair_brings_all_back(
    cluster: Cluster, data: st.DataObject
) -> None:
    router = _router(cluster)
    layout, before = router.layout, _state(router)
    leaf = data.draw(st.integers(0, cluster.leaves - 1))
    uplinks = range(data.draw(st.integers(0, cluster.uplinks - 1)))
    moved = router.fail(leaf, uplinks)
    gone = {link for up in uplinks for link in (layout.up(leaf, up), layout.down(leaf, up))}
    assert all(gone.isdisjoint(links) for links in router.links)
    assert all(router.links[route] == links for route, links in moved.items())
    assert sorted(router.repair(leaf, uplinks)) == sorted(moved)
    assert _state(router)[:2] == before[:2]
    assert _state(router)[4] == before[4]

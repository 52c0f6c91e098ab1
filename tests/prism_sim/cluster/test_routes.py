"""Connections avoid failed uplinks; a change that is refused changes nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabrics import clusters
from prism_common.errors import UserError
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.ways import FAILED
from prism_sim.draws import Draws
from prism_sim.scenario.cluster import Cluster


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
@settings(deadline=None)
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
@settings(deadline=None)
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

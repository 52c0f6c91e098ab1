"""The table of 5-tuples: which way each takes, and when."""

from __future__ import annotations

import numpy as np
import pytest

from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.collector.tuples import Tuples
from prism_sim.draws import Draws
from prism_sim.scenario.models import Cluster

FABRIC = {"kind": "tor", "leaf_ports": 1, "spines": 4, "uplinks": 4}
KINDS = [f"kind {i}" for i in range(40)]
"""Enough connections that some hash elsewhere, whatever they hash by."""


@pytest.fixture
def router():
    """Two servers under leaves of their own, with four ways between them."""
    small = {"servers": 2, "gpus_per_server": 1, "nics_per_server": 1, "fabric": FABRIC}
    return Router(Layout(Cluster.model_validate(small)), Templates(), Draws(0))


def opened(router, src, dst):
    """Routes of all kinds from ``src`` to ``dst``."""
    return np.array([router.route(src, dst, "a", kind) for kind in KINDS], np.int32)


@pytest.mark.parametrize("answered_first", [False, True])
def test_bytes_over_tcp_take_their_route_though_an_answer_came_first(router, answered_first):
    tuples = Tuples(router, Draws(3))
    tuples.tcp = True
    there = tuples.of_routes(opened(router, 0, 1))
    if answered_first:
        answers = tuples.reverse(there)
        tuples.column("path"), tuples.column("routed")  # as they are read for those answers
    routes = opened(router, 1, 0)
    back = tuples.of_routes(routes)
    assert (tuples.column("path")[back] == np.array(router.routes.path)[routes]).all()
    assert (tuples.column("routed")[back] == 1).all()
    assert (tuples.reverse(there) == back).all()
    if answered_first:
        assert (answers == back).all()

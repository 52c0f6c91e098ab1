"""A fault may name everything in the topology, and changes a capacity."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabrics import clusters
from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.faults import KINDS, SlowLink, SlowSwitch
from prism_sim.faults.base import LinkFault
from prism_sim.loading.checks import errors, warnings
from prism_sim.scenario.names import core_name, leaf_name, spine_name
from prism_sim.toolkit import Cluster, Draws, Scenario
from prism_sim.world.control import ClusterCompute, ClusterControl, ClusterLinks


def _accepted(cluster: Cluster, fault: LinkFault) -> bool:
    scenario = Scenario(cluster=cluster, jobs=(), duration_s=9, faults=(cast(Any, fault),))
    return not [remark for remark in errors(scenario) if remark.loc[0] == "faults"]


def _slowed(cluster: Cluster, fault: LinkFault) -> int:
    """Directed links that the fault slows to half; after the fault none is changed."""
    clock, templates = Clock(), Templates()
    layout = Layout(cluster)
    fabric = Fabric(clock, layout.capacity, templates)
    router = Router(layout, templates, Draws(0))
    links = ClusterLinks(clock, fabric, router, cast(Any, None))
    before = fabric.net.link["capacity"].copy()
    undo = fault.begin(ClusterControl(clock, links, ClusterCompute({}), cast(Any, None)))
    ratio = fabric.net.link["capacity"] / before
    assert set(ratio.tolist()) <= {0.5, 1.0}
    undo()
    np.testing.assert_array_equal(fabric.net.link["capacity"], before)
    return int((ratio == 0.5).sum())


def _switch(name: str) -> SlowSwitch:
    return SlowSwitch(switch=name, factor=0.5, from_s=0)


def _link(a: str, b: str) -> SlowLink:
    return SlowLink(a=a, b=b, factor=0.5, from_s=0)


@given(clusters())
@settings(deadline=None, max_examples=40)
def test_every_switch_of_the_topology_can_be_slow_and_no_other(cluster: Cluster) -> None:
    content = Layout(cluster).topology.to_json()
    there = {switch["name"] for switch in content["switches"]}
    for name in there:
        cables = [link for link in content["links"] if name in (link["a"], link["b"])]
        assert _accepted(cluster, _switch(name))
        assert _slowed(cluster, _switch(name)) == 2 * len(cables) > 0
    tried = {make(i) for make in (leaf_name, spine_name, core_name) for i in range(len(there) + 2)}
    for name in tried - there:
        assert not _accepted(cluster, _switch(name))


@given(clusters(), st.data())
@settings(deadline=None, max_examples=60)
def test_every_link_of_the_topology_can_be_slow_and_no_other(
    cluster: Cluster, data: st.DataObject
) -> None:
    content = Layout(cluster).topology.to_json()
    joined = [(link["a"], link["b"]) for link in content["links"]]
    a, b = data.draw(st.sampled_from(joined))
    cables = joined.count((a, b))
    for fault in (_link(a, b), _link(b, a)):
        assert _accepted(cluster, fault)
        assert _slowed(cluster, fault) == 2 * cables
    names = [switch["name"] for switch in content["switches"]]
    names += [endpoint["address"] for endpoint in content["endpoints"]]
    other = st.sampled_from([*names, "leaf999", "s0000", ""])
    one, two = data.draw(st.tuples(other, other))
    there = (one, two) in joined or (two, one) in joined
    assert _accepted(cluster, _link(one, two)) == there


PODS: dict[str, Any] = {
    "servers": 8, "nics_per_server": 1, "gpus_per_server": 1, "fabric":
    {"kind": "tor", "leaf_ports": 2, "spines": 2, "pod_leaves": 2, "uplinks": 2, "cores": 1}
}  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        (_switch("spine07"), "there are leaf000 to leaf003, spine00 to spine03, core00"),
        (_switch("core01"), "did you mean core00?"),
        (_link("leaf002", "spine00"), "from leaf002 links lead to spine02, spine03, 10.0.4.1"),
        (_link("leaf009", "spine00"), "spine00 to spine03, core00, 10.0.0.1 to 10.0.7.1"),
    ],
)
def test_an_unknown_link_is_refused_with_a_list_of_existing_ones(
    fault: LinkFault, hint: str
) -> None:
    scenario = Scenario(
        cluster=Cluster.model_validate(PODS), jobs=(), duration_s=9, faults=(cast(Any, fault),)
    )
    (remark,) = errors(scenario)
    assert hint in remark.how


@pytest.mark.parametrize(
    ("fault", "doubt"),
    [
        ({"kind": "slow_switch", "switch": "spine00", "factor": 0.5}, "through spine00"),
        ({"kind": "slow_link", "a": "leaf000", "b": "spine01", "factor": 0.5}, "through spine01"),
        ({"kind": "failed_uplinks", "leaf": "leaf000", "failed": 1}, "nothing crosses its uplinks"),
        ({"kind": "slow_switch", "switch": "leaf000", "factor": 1}, "factor 1 changes nothing"),
    ],
)
def test_a_fault_that_no_traffic_can_meet_is_doubted(fault: dict[str, Any], doubt: str) -> None:
    """All NICs on one leaf: no path leads over a spine."""
    cluster = {"servers": 2, "nics_per_server": 1, "fabric": {"kind": "tor", "spines": 2}}
    content = {"cluster": cluster, "jobs": [], "duration_s": 9, "faults": [{**fault, "from_s": 1}]}
    scenario = Scenario.model_validate(content)
    assert list(errors(scenario)) == []
    (remark,) = warnings(scenario)
    assert doubt in remark.what


def test_every_kind_of_fault_is_measured() -> None:
    """The truth has the magnitude of every kind of fault."""
    control = ClusterControl(
        Clock(),
        ClusterLinks(Clock(), cast(Any, None), _router(), cast(Any, None)),
        ClusterCompute({}),
        cast(Any, None),
    )
    examples: dict[str, dict[str, Any]] = {
        "slow_gpu": {"job": "a", "rank": 0, "factor": 0.25},
        "slow_nic": {"server": "s0000", "nic": 0, "factor": 0.25},
        "slow_link": {"a": "leaf000", "b": "spine00", "factor": 0.25},
        "slow_switch": {"switch": "spine00", "factor": 0.25},
    }
    for kind, fields in examples.items():
        assert KINDS[kind](**fields, from_s=0).magnitude(control) == 0.75
    half = KINDS["failed_uplinks"].model_validate({"leaf": "leaf000", "failed": 1, "from_s": 0})
    assert half.magnitude(control) == 0.5


def _router() -> Router:
    return Router(Layout(Cluster.model_validate(PODS)), Templates(), Draws(0))

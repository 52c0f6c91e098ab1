"""Places that faults name, and faults of servers that jobs share."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabrics import clusters
from faulty import assert_named, diagnosed
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
@settings(max_examples=40)
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
@settings(max_examples=60)
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
        ({"kind": "uneven_spraying", "leaf": "leaf000"}, "ecmp sends no message over several"),
        ({"kind": "slow_storage", "server": "s0001", "factor": 0.5}, "s0001 is no storage server"),
    ],
)
def test_a_fault_that_no_traffic_can_meet_is_doubted(fault: dict[str, Any], doubt: str) -> None:
    """All NICs on one leaf: no path leads over a spine."""
    cluster = {"servers": 2, "nics_per_server": 1, "fabric": {"kind": "tor", "spines": 2}}
    content = {"cluster": cluster, "jobs": [], "duration_s": 9, "faults": [{**fault, "from_s": 1}]}
    scenario = Scenario.model_validate(content)
    assert list(errors(scenario)) == []
    assert any(doubt in remark.what for remark in warnings(scenario))


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


MODEL = {"layers": 4, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}
ROUNDED = {"message_boundary": False, "effects": [{"kind": "granularity", "unit_ns": 1_000_000}]}


def found_in(folder, faults, gpus, telemetry=None, **job):
    world = {
        "name": "shared",
        "seed": 83,
        "cluster": {
            "servers": 4,
            "gpus_per_server": gpus,
            "nics_per_server": gpus,
            "fabric": {"kind": "tor", "leaf_ports": 4 * gpus, "spines": 2},
        },
        "jobs": [
            {
                "name": "train", "model": MODEL, "dp": 4 * gpus, "micro_batches": 2, "steps": 20,
                "mfu": 0.4, "compute_jitter": 0.01, "step_overhead_ms": 5, "zero_stage": 1,
                "placement": {"servers": ["s0002", "s0000", "s0003", "s0001"]}, **job,
            }
        ],
        "collector": telemetry or {},
        "faults": [{"job": "train", "from_step": 8} | fault for fault in faults],
    }  # fmt: skip
    return diagnosed(folder, world)


@pytest.mark.parametrize("telemetry", [{}, ROUNDED], ids=["exact", "milliseconds"])
@pytest.mark.parametrize(("gpus", "rank"), [(2, 2), (2, 5), (4, 0), (4, 5), (4, 14), (4, 11)])
def test_the_late_rank_of_a_server_is_named(tmp_path, gpus, rank, telemetry):
    fault = {"kind": "slow_gpu", "rank": rank, "factor": 0.6, "to_step": 16}
    assert_named(found_in(tmp_path, [fault], gpus, telemetry))


@pytest.mark.parametrize("zero_stage", [1, 3])
@pytest.mark.parametrize("gpus", [2, 4])
def test_a_server_all_of_whose_ranks_are_late_is_named(tmp_path, gpus, zero_stage):
    """Gathers layer by layer wait for it, and between the steps it is no later than others."""
    fault = {"kind": "slow_server", "server": "s0003", "factor": 0.7, "to_step": 16}
    assert_named(found_in(tmp_path, [fault], gpus, zero_stage=zero_stage), with_cause=False)


@pytest.mark.parametrize("rank", [4, 7, 8, 11])
def test_the_first_or_last_rank_of_a_server_is_late_to_gathers_or_the_one_beside_it(tmp_path, rank):
    fault = {"kind": "slow_gpu", "rank": rank, "factor": 0.7, "to_step": 16}
    case = found_in(tmp_path, [fault], 4, zero_stage=3)
    findings = case.diagnosis["findings"]
    assert list(findings["cause"]) == ["slow_gpu"]
    address = case.truth["ranks"].set_index("rank").loc[rank, "address"]
    assert address in json.loads(findings.iloc[0]["evidence"])["one_of"][:3]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_jitter_of_ranks_that_share_servers_is_no_finding(tmp_path, tp):
    """They wait for one after the other, now and then for one twice."""
    sizes = {"tp": tp, "dp": 16 // tp}
    jitter = {"compute_jitter": 0.02, "step_overhead_ms": 15, "step_overhead_jitter": 0.3}
    assert found_in(tmp_path, [], 4, **sizes, **jitter).diagnosis["findings"].empty


def test_a_step_in_which_a_transfer_waits_for_its_partner_is_not_finished(tmp_path):
    """The transfer ends when the job restarts, and then no bytes of the step lack."""
    fault = {
        "kind": "stopped_nic", "server": "s0003", "nic": 1, "noticed_after_s": 20, "down_s": 10,
    }  # fmt: skip
    assert_named(found_in(tmp_path, [fault], 4), with_cause=False)


@pytest.mark.parametrize("kind", ["hang", "crash"])
def test_a_rank_that_stops_is_named_where_no_exchange_of_gradients_is_seen(tmp_path, kind):
    """All replicas of a stage are in one server."""
    fault = {"kind": kind, "rank": 9, "noticed_after_s": 20}
    fault |= {"into_step_s": 0.02} if kind == "crash" else {}
    assert_named(found_in(tmp_path, [fault], 4, dp=4, pp=4, micro_batches=8), with_cause=False)


@pytest.mark.parametrize("rank", range(8))
def test_a_late_rank_of_two_servers_is_named_or_the_one_before_it(tmp_path, rank):
    """One hop from the last rank of a server to the first one of the other is all that is left."""
    fault = {"kind": "slow_gpu", "rank": rank, "factor": 0.6, "to_step": 16}
    case = found_in(tmp_path, [fault], 4, dp=8, placement={"servers": ["s0002", "s0000"]})
    findings = case.diagnosis["findings"]
    assert list(findings["cause"]) == ["slow_gpu"]
    named = json.loads(findings.iloc[0]["evidence"]).get("one_of", [findings.iloc[0]["culprit"]])
    address = case.truth["ranks"].set_index("rank").loc[rank, "address"]
    assert address in named
    on_either_side = rank % 4 in (0, 3)
    assert len(named) == (2 if on_either_side else 1)


def gathering_and_pausing(folder, every_s):
    """Parameters are gathered for most of a step, so a pause seldom comes before that."""
    fault = {
        "kind": "gc_pauses", "server": "s0000", "pause_ms": 18, "every_s": every_s, "to_step": 16,
    }  # fmt: skip
    gathering = {
        "zero_stage": 3,
        "mfu": 0.44,
        "step_overhead_ms": 15,
        "model": MODEL | {"layers": 8},
    }
    return found_in(folder, [fault], 2, **gathering)


@pytest.mark.parametrize("every_s", [0.09, 0.124])
def test_a_server_that_pauses_in_the_middle_of_collectives_is_named(tmp_path, every_s):
    assert_named(gathering_and_pausing(tmp_path, every_s), alone=False, with_cause=False)


SECOND = pytest.mark.xfail(reason="a second finding names a server that waits for the first")


@pytest.mark.parametrize("every_s", [0.09, pytest.param(0.124, marks=SECOND)])
def test_only_the_server_that_pauses_in_the_middle_of_collectives_is_named(tmp_path, every_s):
    assert_named(gathering_and_pausing(tmp_path, every_s), with_cause=False)

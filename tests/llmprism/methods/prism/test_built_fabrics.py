"""Jobs, steps and faults on NICs of several ports, in NVLink domains, and without spines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scores import assert_exact

MODEL = {"layers": 8, "hidden": 1024, "heads": 8, "vocab": 32000, "sequence_length": 1024}
PIPES = {"dp": 4, "pp": 2, "micro_batches": 4, "steps": 14, "mfu": 0.2}
PORTS = {
    "servers": 8, "gpus_per_server": 1, "nics_per_server": 1, "nic_ports": 2,
    "fabric": {"kind": "tor", "leaf_ports": 4, "spines": 2, "planes": 2},
}  # fmt: skip
DOMAINS = {
    "servers": 8, "gpus_per_server": 2, "nics_per_server": 2, "nvlink_domain": 8,
    "fabric": {"kind": "rail", "leaf_ports": 8, "spines": 2},
}  # fmt: skip
RAILS = {
    "servers": 4, "gpus_per_server": 4, "nics_per_server": 4,
    "fabric": {"kind": "rail_only", "leaf_ports": 4},
}  # fmt: skip


def world(cluster: dict[str, Any], fault: dict[str, Any] | None = None, **job: Any) -> str:
    """A scenario in JSON with one job, and a fault in steps 6 to 9 of it."""
    fixed = {"name": "solo", "model": MODEL, "compute_jitter": 0.01, "step_overhead_ms": 2}
    window = {"job": "solo", "from_step": 6, "to_step": 10}
    faults = [] if fault is None else [fault | window]
    return json.dumps({"cluster": cluster, "jobs": [fixed | PIPES | job], "faults": faults})


def found(run: Any) -> set[tuple[str, str, str]]:
    findings = run.diagnosis.findings
    return set(zip(findings["cause"], findings["culprit_kind"], findings["culprit"], strict=True))


@pytest.mark.parametrize("addresses", ["shared", "own"])
def test_two_ports_of_a_nic_are_one_rank(scored, addresses):
    run = scored(world({**PORTS, "port_addresses": addresses}))
    assert_exact(run.score)
    assert found(run) == set()


@pytest.mark.parametrize("addresses", ["shared", "own"])
@pytest.mark.parametrize(
    ("fault", "culprit"),
    [
        ({"kind": "failed_plane", "plane": 1}, ("failed_plane", "plane", "plane 1")),
        ({"kind": "failed_leaf", "leaf": "leaf001"}, ("failed_leaf", "switch", "leaf001")),
    ],
)
def test_what_carries_nothing_while_other_ports_do_is_down(scored, addresses, fault, culprit):
    cluster = {**PORTS, "port_addresses": addresses, "nic_gbps": 100}
    run = scored(world(cluster, fault))
    assert run.score["jobs"]["exact"] == 1
    assert found(run) == {culprit}


def test_a_job_on_nvlink_domains_is_one_job(scored):
    run = scored(world(DOMAINS, dp=4, pp=1, tp=4, micro_batches=2))
    assert run.score["jobs"]["exact"] == run.score["jobs"]["found"] == 1
    assert run.score["timeline"]["coverage"] == 1


def test_a_slow_gpu_in_a_domain_is_no_other_server(scored):
    fault = {"kind": "slow_gpu", "rank": 5, "factor": 0.5}
    run = scored(world(DOMAINS, fault, dp=4, pp=1, tp=4, micro_batches=2))
    ranks = run.truth("ranks")
    elsewhere = ranks[~ranks["rank"].isin(range(4, 8))]  # beyond its tensor-parallel group
    named = {name for _, _, name in found(run)}
    assert named.isdisjoint({*elsewhere["address"], *elsewhere["server"], "d001"})
    sets = [json.loads(text).get("one_of", []) for text in run.diagnosis.findings["evidence"]]
    assert any({"s0002", "s0003"} <= {*names} for names in sets)


def test_a_job_on_rails_alone_is_found(scored):
    run = scored(world(RAILS, dp=4, pp=2, tp=2))
    assert run.score["jobs"]["exact"] == 1
    assert run.score["timeline"]["coverage"] == 1

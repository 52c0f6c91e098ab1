"""Leaves that fail, before or during the recording."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from faulty import fault_of, run_with, step_ms
from llmprism.conclusion import CALM
from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, simulate

PLANES: dict[str, Any] = {
    "servers": 8, "gpus_per_server": 1, "nics_per_server": 1, "nic_ports": 2,
    "fabric": {"kind": "tor", "leaf_ports": 4, "spines": 2, "planes": 2},
}  # fmt: skip
RING = {"dp": 8, "pp": 1, "mfu": 1.0, "micro_batches": 1}
"""Steps that are mostly the all-reduce of the gradients, so that the network decides."""
WINDOW = {"job": "a", "from_step": 3, "to_step": 6}


def cluster(addresses: str) -> dict[str, Any]:
    return {**PLANES, "port_addresses": addresses}


def leaves_by_step(run: Any) -> pd.Series:
    """The leaves that records of each step begin at."""
    flows = pd.read_parquet(run.flows)
    steps = run.truth("steps").groupby("step")["start_ns"].min()
    flows["step"] = steps.searchsorted(flows["start_ns"], "right") - 1
    leaf = flows["path"].astype(str).str.split("|").str[0]
    return leaf.groupby(flows["step"]).agg(lambda of: sorted(set(of)))


@pytest.mark.parametrize("addresses", ["shared", "own"])
def test_a_failed_plane_leaves_half_of_the_rate_and_stops_nothing(tmp_path, addresses) -> None:
    fault = {"kind": "failed_plane", "plane": 1, **WINDOW}
    run = run_with(tmp_path, fault, cluster=cluster(addresses), **RING)
    took = step_ms(run)
    network_ms = sent_bytes(run) / 50e6
    assert took[4] - took[2] == pytest.approx(network_ms, rel=0.05)
    assert took[7] == pytest.approx(took[2], rel=0.05)
    both, one = ["leaf000", "leaf001", "leaf002", "leaf003"], ["leaf000", "leaf001"]
    used = leaves_by_step(run)
    assert used[2] == used[7] == both
    assert used[4] == used[5] == one
    truth = fault_of(run)
    assert (truth["culprit_kind"], truth["culprit"]) == ("plane", "plane 1")
    assert (truth["magnitude"], json.loads(truth["jobs"])) == (0.5, ["a"])


def sent_bytes(run: Any) -> float:
    """Bytes that cross each NIC in a step, in each direction."""
    return float(run.truth("pairs")["bytes"].sum() / 8 / run.truth("steps")["step"].nunique())


def test_a_failed_leaf_slows_only_what_uses_its_nics(tmp_path) -> None:
    fault = {"kind": "failed_leaf", "leaf": "leaf002", **WINDOW}
    run = run_with(tmp_path, fault, cluster=PLANES, **RING)
    flows = pd.read_parquet(run.flows)
    truth = fault_of(run)
    assert (truth["culprit_kind"], truth["culprit"]) == ("switch", "leaf002")
    inside = flows[flows["start_ns"].between(truth["start_ns"], truth["end_ns"] - 1)]
    paths = inside["path"].astype(str)
    far = paths[~paths.str.contains("leaf000|leaf002")]
    assert set(far) == {"leaf001", "leaf003"}, "the other rack still uses both planes"
    assert not paths.str.contains("leaf002").any()


@pytest.mark.parametrize("addresses", ["shared", "own"])
def test_the_truth_calls_a_nic_by_one_address(tmp_path, addresses) -> None:
    fault = {"kind": "failed_plane", "plane": 0, **WINDOW}
    run = run_with(tmp_path, fault, cluster=cluster(addresses), **RING)
    ranks, pairs = set(run.truth("ranks")["address"]), run.truth("pairs")
    assert {*pairs["src"], *pairs["dst"]} <= ranks
    seen = set(pd.read_parquet(run.flows)["src"])
    assert len(seen) == (8 if addresses == "shared" else 16)


MODEL = {"layers": 4, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}
NIC = {"kind": "slow_nic", "server": "s0002", "nic": 1, "factor": 0.3, "from_s": 0}
GPU = {"kind": "slow_gpu", "job": "train", "rank": 5, "factor": 0.75, "from_step": 0}


def diagnosis_of(folder, pp, faults):
    world = {
        "name": "older",
        "seed": 12,
        "cluster": {
            "servers": 8, "gpus_per_server": 4, "nics_per_server": 4, "gpu_spread": 0.01,
            "fabric": {"kind": "rail", "leaf_ports": 8, "spines": 2},
        },
        "jobs": [
            {
                "name": "train", "model": MODEL, "dp": 8 // pp, "pp": pp, "tp": 4, "mfu": 0.4,
                "micro_batches": 4, "steps": 12, "compute_jitter": 0.01, "step_overhead_ms": 5,
            }
        ],
        "faults": faults,
    }  # fmt: skip
    run = Run(folder)
    simulate(Scenario.model_validate(world), run)
    return diagnose(run.flows, run.topology)


@pytest.mark.parametrize("pp", [1, 2])
def test_a_slow_nic_is_named_beside_its_peers_and_once(tmp_path, pp):
    diagnosis = diagnosis_of(tmp_path, pp, [NIC])
    assert diagnosis.findings["culprit"].tolist() == ["10.0.2.2"]  # NIC 1 of server s0002
    assert diagnosis.conclusion.slow == ()


def test_a_slow_gpu_without_a_pipeline_is_not_judged(tmp_path):
    conclusion = diagnosis_of(tmp_path, 1, [GPU]).conclusion
    assert conclusion.tone != CALM
    assert any("wait for at the same moment" in text for text in conclusion.not_judged)


def test_a_healthy_pipeline_gets_no_remark(tmp_path):
    assert diagnosis_of(tmp_path, 2, []).conclusion.tone == CALM

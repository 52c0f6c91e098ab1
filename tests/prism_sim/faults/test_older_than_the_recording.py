"""Faults that are older than the recording get no clean bill, and healthy jobs no remark."""

from __future__ import annotations

import pytest

from llmprism.conclusion import CALM
from llmprism.pipeline import diagnose
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate

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

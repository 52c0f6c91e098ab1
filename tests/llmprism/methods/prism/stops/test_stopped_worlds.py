"""Jobs that stop for good: who stopped, where the records end with the job's traffic or go on."""

from __future__ import annotations

import json

import pytest

import prism_sim as ps

pytestmark = pytest.mark.slow  # each test simulates a world

WORLD = """\
seed: 5
cluster: {servers: %d, gpus_per_server: %d, nics_per_server: %d,
          fabric: {kind: tor, leaf_ports: 16, spines: 2}}
%s
jobs:
  - {name: train, model: {layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048},
     %s, steps: 20, mfu: 0.4, compute_jitter: 0.02, step_overhead_ms: 3}
faults:
  - {job: train, from_step: 12, noticed_after_s: 5, %s}
"""
SERVICES = "background: [{name: services, flows_per_s: 100, median_bytes: 2000, sigma: 2}]"


def suspects(tmp_path, *parts) -> list[str]:
    """The suspects of the only finding of a world."""
    (tmp_path / "world.yaml").write_text(WORLD % parts)
    findings = ps.run(tmp_path / "world.yaml", out=tmp_path / "run").diagnosis.findings
    assert findings["cause"].tolist() == ["hang"]
    assert findings["first_step"].iloc[0] >= 11
    return [findings["culprit"].iloc[0], *json.loads(findings["evidence"].iloc[0])["one_of"]]


def test_one_replica_stops_though_gradients_stay_inside_servers(tmp_path):
    """The others finish the passes of the step, so that only they show that it began."""
    keys = "dp: 4, pp: 4, schedule: gpipe, micro_batches: 6, zero_stage: 0"
    fault = "kind: stopped_nic, server: s0001, nic: 1"
    assert "10.0.1.2" in suspects(tmp_path, 4, 4, 4, SERVICES, keys, fault)


def test_a_stage_that_waits_for_its_gradients_stopped_nobody(tmp_path):
    """Half of all pipelines stand still: those of the stage whose gradients a NIC holds up."""
    keys = "dp: 8, pp: 4, schedule: interleaved, chunks: 2, micro_batches: 8, zero_stage: 1"
    fault = "kind: stopped_nic, server: s0005, nic: 1"
    assert "10.0.5.2" in suspects(tmp_path, 16, 2, 2, "", keys, fault)


def test_a_ring_that_nobody_finishes_shows_who_crashed_in_its_last_passes(tmp_path):
    keys = "dp: 4, pp: 2, tp: 4, schedule: zb-h1, micro_batches: 8, zero_stage: 0"
    found = suspects(tmp_path, 8, 4, 4, "", keys, "kind: crash, rank: 22, into_step_s: 0.016")
    assert found[0].rsplit(".", 1)[0] == "10.0.5"

"""Jobs that stop for good: who stopped, where the records end with the job's traffic or go on."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import prism_sim as ps
from llmprism.io.flows import Rest
from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run

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


TWO = """\
seed: 6
cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1,
          fabric: {kind: tor, leaf_ports: 8, spines: 2}}
jobs:
  - &job {name: stops, model: {layers: 8, hidden: 2048, heads: 16, vocab: 32000,
          sequence_length: 2048}, dp: 4, micro_batches: 4, steps: 24, mfu: 0.4}
  - {<<: *job, name: goes-on, steps: 60}
faults:
  - {kind: hang, job: stops, rank: 1, from_step: 12, noticed_after_s: 60}
"""


def test_a_job_that_is_diagnosed_alone_has_stopped_if_the_records_of_others_go_on(tmp_path):
    (tmp_path / "world.yaml").write_text(TWO)
    ps.simulate(tmp_path / "world.yaml", out=tmp_path / "run")
    run = Run(tmp_path / "run")
    ranks, flows = run.truth("ranks"), pq.read_table(run.flows)
    own = ranks.loc[ranks["job"] == "stops", "address"].astype(str).tolist()
    addresses = [end["address"] for end in json.loads(run.topology.read_text())["endpoints"]]
    ends_ns = flows["end_ns"].to_numpy()
    rest = Rest((int(ends_ns.min()), int(ends_ns.max())), np.arange(len(addresses)), True)
    alone = flows.filter(pc.is_in(flows["src"].cast("string"), value_set=pa.array(own)))
    pq.write_table(alone, tmp_path / "alone.parquet")
    findings = diagnose(tmp_path / "alone.parquet", run.topology, rest=rest).findings
    assert findings["cause"].tolist() == ["hang"]
    assert findings["end_ns"].iloc[0] > alone["end_ns"].to_numpy().max()

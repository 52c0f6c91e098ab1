"""Pipelines that hold many chunks of the model: what closes their ring moves hardly less."""

from __future__ import annotations

import pytest

import prism_sim as ps

WORLD = """\
cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 200}
jobs:
  - name: solo
    model: {layers: %d, hidden: 1024, heads: 16, vocab: 32000, sequence_length: 2048}
    dp: 2
    pp: 4
    schedule: interleaved
    chunks: %d
    stage_layers: [%s]
    micro_batches: %d
    zero_stage: %d
    steps: 4
    compute_jitter: 0.01
"""


def run_of(folder, parts, chunks, micro_batches=8, zero_stage=0):
    layers = ", ".join(str(one) for one in parts)
    text = WORLD % (sum(parts), chunks, layers, micro_batches, zero_stage)
    (folder / "world.yaml").write_text(text)
    return ps.run(folder / "world.yaml", out=folder / "run")


@pytest.mark.parametrize(("chunks", "micro_batches"), [(6, 8), (8, 16)])
def test_the_last_stage_sends_the_first_one_a_chunk_less(tmp_path, chunks, micro_batches):
    run = run_of(tmp_path, [1] * 4 * chunks, chunks, micro_batches)
    (row,) = run.diagnosis.layouts.to_dict("records")
    assert (row["micro_batches"], row["schedule"]) == (micro_batches, "interleaved")


@pytest.mark.parametrize("zero_stage", [0, 1])
def test_a_first_chunk_without_layers_waits_for_the_gathers(tmp_path, zero_stage):
    """Its activations leave at once, which is no forward pass that gathers overlap."""
    run = run_of(tmp_path, [0, *[1] * 30, 0], 8, 16, zero_stage)
    timeline = run.score["timeline"]
    assert timeline["coverage"] == 1
    assert timeline["step_error_max"] < 0.003


def test_activations_that_wait_for_each_other_are_no_forward_pass_apart(tmp_path):
    """A first chunk without layers takes no time, and the network takes 4 ms for what it sends."""
    text = WORLD % (14, 4, ", ".join("0" + "1" * 14 + "0"), 4, 1) + "    step_overhead_ms: 20\n"
    (tmp_path / "world.yaml").write_text(text.replace("nic_gbps: 200", "nic_gbps: 8"))
    run = ps.run(tmp_path / "world.yaml", out=tmp_path / "run")
    both = run.truth("steps").merge(run.truth("ranks"), on=["job", "rank"])
    both = both.merge(run.diagnosis.steps, on=["address", "step"], suffixes=("", "_found"))
    late_ns = (both["start_ns_found"] - both["start_ns"])[(both["pp"] == 0) & (both["step"] > 0)]
    assert late_ns.abs().max() < 1_000_000

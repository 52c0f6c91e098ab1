"""Tensor-parallel groups over several servers, in a pipeline whose replicas show no gradients."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow  # each test simulates a world

WORLD = """\
cluster: {servers: %d, gpus_per_server: %d, nics_per_server: %d, nic_gbps: 200}
collector: {idle_gap_us: 1000}
jobs:
  - {name: solo, model: {layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048},
     mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 2, steps: 6, micro_batches: 4, %s}
"""


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-h1"])
@pytest.mark.parametrize(("stages", "tensor", "gpus"), [(2, 4, 2), (4, 2, 1)])
def test_exchanges_that_end_with_the_passes_are_tensor_parallel(
    scored, schedule, stages, tensor, gpus
):
    """One replica reduces no gradients."""
    keys = f"pp: {stages}, tp: {tensor}, schedule: {schedule}"
    run = scored(WORLD % (stages * tensor // gpus, gpus, gpus, keys))
    assert run.score["pairs"]["accuracy"] == 1
    assert run.diagnosis.layouts[["dp", "pp", "tp"]].to_numpy().tolist() == [[1, stages, tensor]]
    assert run.score["timeline"]["coverage"] == 1


@pytest.mark.parametrize("zero_stage", [0, 3])
def test_gradients_that_end_after_the_passes_are_data_parallel(scored, zero_stage):
    run = scored(WORLD % (8, 1, 1, f"dp: 4, pp: 2, zero_stage: {zero_stage}"))
    assert run.score["pairs"]["accuracy"] == 1
    assert run.diagnosis.layouts[["dp", "pp", "tp"]].to_numpy().tolist() == [[4, 2, 1]]

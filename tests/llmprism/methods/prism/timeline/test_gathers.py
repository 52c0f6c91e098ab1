"""Parameters gathered in the next step: with and without them, a step ends with its own traffic."""

from __future__ import annotations

import pytest

import prism_sim as ps

SCENARIO = """\
cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1}
jobs:
  - name: solo
    model: {layers: 8, hidden: 1024, heads: 16, vocab: 32000, sequence_length: 1024}
    dp: %d
    pp: %d
    overlap_param_gather: %s
    micro_batches: 6
    steps: %d
    compute_jitter: 0.01
    step_overhead_ms: 8
"""


@pytest.mark.parametrize("late", ["true", "false"])
@pytest.mark.parametrize(
    ("dp", "pp", "steps"), [(2, 4, 6), (4, 2, 6), (8, 1, 6), (2, 4, 3), (4, 2, 3)]
)
def test_the_end_of_data_parallel_traffic_is_exact(tmp_path, dp, pp, late, steps):
    (tmp_path / "world.yaml").write_text(SCENARIO % (dp, pp, late, steps))
    score = ps.run(tmp_path / "world.yaml", out=tmp_path / "run").score
    assert score["timeline"]["coverage"] == 1
    assert score["timeline"]["dp_end_error_max"] < 0.001
    if late == "true":  # then the begin of a step shows
        assert score["timeline"]["step_error_mean"] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dp", "pp", "micro_batches"), [(4, 2, 2), (4, 2, 3), (4, 2, 6), (8, 1, 2), (8, 1, 3)]
)
def test_late_gathers_of_gradients_reduced_in_every_micro_batch_show(
    tmp_path, dp, pp, micro_batches
):
    text = SCENARIO % (dp, pp, "true", 6)
    text = text.replace("micro_batches: 6", f"micro_batches: {micro_batches}\n    zero_stage: 2")
    (tmp_path / "world.yaml").write_text(text)
    score = ps.run(tmp_path / "world.yaml", out=tmp_path / "run").score
    assert score["timeline"]["coverage"] == 1
    assert score["timeline"]["dp_end_error_max"] < 0.001
    if pp > 1:
        assert score["timeline"]["step_error_mean"] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("micro_batches", [2, 4, 6])
def test_gathers_within_backward_passes_are_of_their_own_step(tmp_path, micro_batches):
    """The last stage of a job that shards its parameters rests longest before its last passes."""
    schedule = f"{micro_batches}\n    zero_stage: 3\n    schedule: interleaved\n    chunks: 2"
    text = (SCENARIO % (4, 2, "false", 7)).replace("micro_batches: 6", f"micro_batches: {schedule}")
    text = text.replace("nics_per_server: 1", "nics_per_server: 1, nic_gbps: 50")
    (tmp_path / "world.yaml").write_text(text.replace("step_overhead_ms: 8", "step_overhead_ms: 2"))
    score = ps.run(tmp_path / "world.yaml", out=tmp_path / "run").score
    assert score["timeline"]["coverage"] == 1
    assert score["timeline"]["dp_end_error_max"] < 0.001
    assert score["timeline"]["step_error_max"] < 0.01

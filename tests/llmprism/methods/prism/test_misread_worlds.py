"""Small worlds in which pauses were taken for steps, or merged records for another kind."""

from __future__ import annotations

import pytest

import prism_sim as ps

SINGLE = """\
cluster: {servers: 16, gpus_per_server: 1, nics_per_server: 1, nic_gbps: %d,
          fabric: {kind: tor, leaf_ports: 8, spines: 2}}
"""
MODEL = "{layers: %d, hidden: %d, heads: 8, vocab: 32000, sequence_length: 1024}"
MERGED = """\
collector:
  idle_gap_us: %d
  message_boundary: false
  effects: [{kind: headers}]
"""


@pytest.fixture
def scored(tmp_path):
    def run(text: str, seed: int = 1):
        (tmp_path / "world.yaml").write_text(text)
        return ps.run(tmp_path / "world.yaml", out=tmp_path / "run", seed=seed)

    return run


def job(keys: str, layers: int = 12, hidden: int = 1024) -> str:
    """The only job of a world."""
    fixed = "mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 5"
    return f"jobs:\n  - {{name: solo, model: {MODEL % (layers, hidden)}, {fixed}, {keys}}}\n"


def assert_exact(score) -> None:
    assert score["jobs"]["accuracy"] == 1
    assert score["pairs"]["accuracy"] == 1
    assert score["timeline"]["coverage"] == 1
    assert score["timeline"]["steps_unexplained"] == 0


@pytest.mark.parametrize(("checkpoints", "evaluations"), [(2, 4), (3, 2), (2, 3)])
def test_pauses_after_every_second_or_third_step_of_a_pipeline_join_no_steps(
    scored, checkpoints, evaluations
):
    pauses = f"checkpoint: {{every: {checkpoints}, mode: sync}}, "
    pauses += f"evaluation: {{every: {evaluations}, micro_batches: 5}}"
    keys = f"dp: 4, pp: 2, micro_batches: 4, steps: 14, {pauses}"
    assert_exact(scored(SINGLE % 100 + "storage: [s0015]\n" + job(keys)).score)


@pytest.mark.parametrize("hidden", [512, 1024])
def test_activations_of_evaluations_stay_with_gradients_that_are_a_small_part_of_the_bytes(
    scored, hidden
):
    """Only one direction is less than a hundredth of what the busiest connection carries."""
    pauses = "evaluation: {every: 2, micro_batches: 5}"
    keys = f"dp: 4, pp: 2, micro_batches: 4, steps: 12, {pauses}"
    assert_exact(scored(SINGLE % 100 + job(keys, 48, hidden)).score)


def test_updates_of_a_few_large_messages_are_of_steps_with_evaluations(scored):
    pauses = "evaluation: {every: 4, micro_batches: 2}"
    keys = f"dp: 4, zero_stage: 1, micro_batches: 2, steps: 12, {pauses}"
    assert_exact(scored(SINGLE % 50 + job(keys, 24, 1024)).score)


def test_exchanges_of_experts_are_no_steps_beside_gradients(scored):
    """Every exchange is balanced, and there are many of them in a step."""
    experts = "ep: 8, moe: {experts: 8, top_k: 2, imbalance: 0.3}"
    keys = f"dp: 8, micro_batches: 2, steps: 6, {experts}"
    assert_exact(scored(SINGLE % 100 + job(keys)).score)


@pytest.mark.parametrize("micro_batches", [4, 8])
@pytest.mark.parametrize("nic_gbps", [10, 25])
def test_micro_batches_in_one_record_that_is_answered_before_its_end_are_not_counted(
    scored, micro_batches, nic_gbps
):
    keys = f"dp: 4, pp: 2, micro_batches: {micro_batches}, steps: 8, transport: tcp"
    run = scored(SINGLE % nic_gbps + job(keys, 8, 4096) + MERGED % 50_000)
    assert list(run.diagnosis.layouts["micro_batches"]) in ([micro_batches], [-1])


@pytest.mark.parametrize("layout", ["dp: 2, tp: 4", "dp: 4, tp: 2"])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_tensor_parallelism_across_servers_shows_in_one_record_a_step(
    scored, layout, micro_batches
):
    keys = f"{layout}, micro_batches: {micro_batches}, steps: 8"
    run = scored(SINGLE % 200 + job(keys, 8, 2048) + MERGED % 2000)
    assert_exact(run.score)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_coarse_clock_makes_no_pipeline_of_two_replicas(scored, seed):
    """Rounding and offsets of clocks make one direction begin first in every step."""
    cluster = """\
cluster: {servers: 2, gpus_per_server: 4, nics_per_server: 4, nic_gbps: 200,
          fabric: {kind: rail, leaf_ports: 4, spines: 2}}
"""
    effects = (
        "[{kind: headers}, {kind: clocks, offset_us: 500}, {kind: granularity, unit_ns: 1000000}]"
    )
    collector = MERGED.replace("[{kind: headers}]", effects) % 10_000
    run = scored(cluster + job("dp: 8, micro_batches: 4, steps: 12", 8, 1024) + collector, seed)
    assert run.score["pairs"]["accuracy"] == 1

"""Jobs and steps in small worlds, one for each way in which an answer was once wrong."""

from __future__ import annotations

import pytest

from llmprism.pipeline import diagnose
from scores import assert_exact
from small import FOUR, MODEL, SINGLE, job

pytestmark = pytest.mark.slow  # each test simulates a world


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_services_and_idle_nics_are_of_no_job_that_was_placed_at_random(scored, seed):
    background = """\
background:
  - {name: log, flows_per_s: 60, median_bytes: 20000, to: s0005}
  - {name: services, flows_per_s: 150, median_bytes: 5000, sigma: 2}
"""
    first = job("one", "dp: 4, pp: 2, micro_batches: 8, steps: 10, placement: packed")
    second = job("two", "dp: 8, micro_batches: 4, steps: 10, placement: random")
    run = scored(FOUR + background + "jobs:\n" + first + second, seed)
    true = run.truth("ranks").groupby("job")["address"].agg(set)
    for found in run.diagnosis.jobs.groupby("job")["address"].agg(set):
        assert any(found <= own for own in true)
    assert run.score["pairs"]["accuracy"] == 1


@pytest.mark.parametrize("zero_stage", [1, 3])
def test_an_evaluation_that_gathers_parameters_leaves_the_steps(scored, zero_stage):
    keys = f"dp: 8, zero_stage: {zero_stage}, micro_batches: 2, steps: 13"
    run = scored(
        SINGLE % (8, 200)
        + "jobs:\n"
        + job("solo", keys + ", evaluation: {every: 4, micro_batches: 5}")
    )
    assert_exact(run.score)


def test_evaluations_after_every_fourth_step_hide_no_steps_of_sharded_parameters(scored):
    """Four steps and an evaluation take equal times, and so do their bytes."""
    cluster = """\
cluster: {servers: 9, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 400, gpu_spread: 0.028,
          fabric: {kind: rail, leaf_ports: 9}}
"""
    model = "{layers: 16, hidden: 1024, heads: 16, vocab: 50000, sequence_length: 1024}"
    jobs = f"""\
jobs:
  - {{name: a, model: {model}, dp: 8, zero_stage: 3, micro_batches: 1, steps: 18, mfu: 0.34,
     compute_jitter: 0.0115, step_overhead_ms: 8.64, step_overhead_jitter: 0.23,
     evaluation: {{every: 4, micro_batches: 7}}}}
"""
    timeline = scored(cluster + "collector: {idle_gap_us: 200}\n" + jobs, 7).score["timeline"]
    assert (timeline["coverage"], timeline["steps_unexplained"]) == (1, 0)


@pytest.mark.parametrize("model", ["llama-7b", "llama-3.2-3b"])
def test_an_update_after_four_equal_passes_ends_a_step_however_short_it_is(scored, model):
    """Silences inside a pass are longer than the update of the smaller model."""
    keys = f"model: {model}, dp: 8, zero_stage: 3, micro_batches: 4, steps: 12"
    cluster = "cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 400}\n"
    run = scored(cluster + f"jobs:\n  - {{name: a, {keys}, compute_jitter: 0.012}}\n", 3)
    assert run.diagnosis.steps["step"].max() == 11
    assert run.score["timeline"]["coverage"] > 0.9


def test_a_pause_after_every_third_step_of_many_passes_ends_no_step(scored):
    """A step gathers its parameters after 16 reductions: a small part of all bytes."""
    keys = "model: gpt-2.7b, dp: 4, zero_stage: 2, micro_batches: 16, steps: 29"
    habit = "step_overhead_ms: 15, evaluation: {every: 3, micro_batches: 8}"
    cluster = "cluster: {servers: 4, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 200}\n"
    run = scored(cluster + f"jobs:\n  - {{name: a, {keys}, {habit}}}\n", 3)
    assert run.score["timeline"]["coverage"] > 0.9


@pytest.mark.parametrize("into_s", [0.02, 0.05, 0.1, 0.13])
def test_a_step_that_a_failure_interrupts_counts_for_the_ranks_that_ended_it(scored, into_s):
    failure = (
        f"restarts: [{{step: 6, rank: 1, into_step_s: {into_s}, noticed_after_s: 2, down_s: 3}}]"
    )
    first = job("one", f"dp: 4, pp: 2, micro_batches: 3, steps: 12, {failure}")
    second = job("two", f"dp: 4, micro_batches: 3, steps: 12, {failure}")
    assert_exact(scored(SINGLE % (12, 100) + "jobs:\n" + first + second).score)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_few_bytes_that_are_reduced_are_no_acknowledgements(scored, seed):
    keys = "dp: 4, pp: 2, tp: 2, micro_batches: 4, steps: 8, sync_embeddings: true"
    small = "gradient_norm: true, loss_reduce: true"
    assert_exact(scored(FOUR + "jobs:\n" + job("solo", f"{keys}, {small}"), seed).score)


def test_records_as_long_as_a_round_timeout_are_believed_if_silence_ended_them(scored):
    """The gradients of a step take 1.00 s, and a new record begins after the next pass only."""
    collector = """\
collector:
  idle_gap_us: 5000
  message_boundary: false
  effects: [{kind: headers}, {kind: granularity, unit_ns: 1000000}]
"""
    model = "{layers: 12, hidden: 2560, heads: 20, vocab: 50000, sequence_length: 2048}"
    keys = f"model: {model}, dp: 8, micro_batches: 2, steps: 10, mfu: 0.4, compute_jitter: 0.01"
    jobs = f"jobs:\n  - {{name: solo, {keys}}}\n"
    assert_exact(scored(SINGLE % (8, 50) + jobs + collector).score)


def first_part(run, seconds: float):
    """Diagnosis of the records that end in the first ``seconds`` of training."""
    flows = run.flows()
    begin_ns = int(flows["start_ns"].min())
    flows = flows[flows["end_ns"] < begin_ns + seconds * 1e9]
    return diagnose(flows, run.folder / "topology.json", method="prism")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 1.3, 1.9])
@pytest.mark.parametrize("cluster", [SINGLE % (8, 200), FOUR], ids=["single", "four"])
def test_micro_batches_are_no_steps_of_records_that_end_too_early(scored, cluster, share):
    """In the middle of a step, one activation and one gradient repeat."""
    jobs = "jobs:\n" + job("solo", "dp: 4, pp: 2, micro_batches: 16, steps: 4")
    run = scored(cluster + jobs)
    found = first_part(run, share * run.truth("steps").eval("end_ns - start_ns").median() / 1e9)
    assert not found.verdict.can_tell
    assert len(found.steps) == 0


def test_micro_batches_that_each_reduce_across_servers_look_like_steps(scored):
    """Shards inside servers are not seen, and the update is short beside the passes."""
    cluster = """\
cluster: {servers: 2, gpus_per_server: 8, nics_per_server: 8, nic_gbps: 200,
          fabric: {kind: rail, leaf_ports: 8}}
"""
    model = "{layers: 16, hidden: 4096, heads: 32, vocab: 50304, sequence_length: 2048}"
    keys = f"model: {model}, dp: 16, zero_stage: 3, hybrid_shards: 8, micro_batches: 2, steps: 8"
    fixed = "micro_batch_size: 8, mfu: 0.4, compute_jitter: 0.015, step_overhead_ms: 10"
    run = scored(cluster + f"jobs:\n  - {{name: solo, {keys}, {fixed}}}\n")
    assert run.diagnosis.steps["step"].nunique() in (8, 16)


@pytest.mark.parametrize("steps", [3, 8])
@pytest.mark.parametrize("pp", [2, 4])
def test_ranks_whose_gradients_leave_by_another_nic_end_a_step_with_them(scored, pp, steps):
    """Three replicas on servers of two GPUs: a ring enters and leaves some servers by one NIC."""
    cluster = """\
cluster: {servers: 6, gpus_per_server: 2, nics_per_server: 2, nic_gbps: 100,
          fabric: {kind: tor, leaf_ports: 8, spines: 2}}
"""
    world = job("solo", f"dp: 3, pp: {pp}, zero_stage: 0, micro_batches: 4, steps: {steps}")
    run = scored(cluster + "jobs:\n" + world)
    alone = run.diagnosis.steps.groupby("address")["dp_end_ns"].agg(lambda ends: ends.isna().all())
    assert alone.any()
    assert run.score["timeline"]["coverage"] == 1
    assert run.score["timeline"]["step_error_max"] < 0.1


@pytest.mark.parametrize("pp", [3, 4])
def test_a_forward_pass_fits_between_the_end_of_a_step_and_an_activation(scored, pp):
    """One micro-batch shows no second activation, and transfers take longer than passes."""
    keys = f"dp: 4, pp: {pp}, zero_stage: 1, micro_batches: 1, steps: 6, mfu: 0.4"
    fixed = "compute_jitter: 0.005, step_overhead_ms: 0, micro_batch_size: 4"
    world = f"jobs:\n  - {{name: solo, model: {MODEL}, {keys}, {fixed}}}\n"
    run = scored(SINGLE % (16, 100) + world)
    assert run.score["timeline"]["coverage"] == 1
    assert run.score["timeline"]["step_error_max"] < 0.02


def test_a_first_step_that_lacks_its_gathers_is_a_step(scored):
    """Two replicas of two context-parallel ranks, whose gathers come in the next step."""
    model = "{layers: 2, hidden: 2048, heads: 16, vocab: 50304, sequence_length: 2048}"
    keys = "dp: 2, cp: 2, zero_stage: 2, overlap_param_gather: true, micro_batches: 1, steps: 4"
    fixed = "micro_batch_size: 4, mfu: 0.54, compute_jitter: 0.005, step_overhead_ms: 8"
    world = f"jobs:\n  - {{name: solo, model: {model}, {keys}, {fixed}, recompute: full}}\n"
    run = scored(SINGLE % (4, 100) + world)
    assert run.score["jobs"]["exact"] == 1
    assert run.score["timeline"]["coverage"] == 1
    assert run.score["timeline"]["dp_end_error_max"] < 0.001
    (row,) = run.diagnosis.layouts.to_dict("records")
    assert (row["dp"], row["cp"]) == (2, 2)


@pytest.mark.parametrize(("pp", "tp"), [(2, 1), (2, 2), (4, 1), (1, 4)])
def test_stages_inside_servers_are_known_by_the_bytes_of_their_gradients(scored, pp, tp):
    keys = f"dp: 6, pp: {pp}, tp: {tp}, micro_batches: 4, steps: 8, placement: spread"
    run = scored(FOUR + "jobs:\n" + job("solo", keys))
    (layout,) = run.score["parallelism"]["jobs"]
    assert [layout["inferred"][axis] for axis in ("dp", "pp", "tp")] == [6, pp, tp]
    assert layout["stage_order"] == (1 if pp > 1 else None)


def test_a_slow_gpu_of_many_servers_is_no_stage_since_the_others_only_wait(scored):
    keys = "{name: solo, model: llama-13b, dp: 16, pp: 2, tp: 4, micro_batches: 8, steps: 10,"
    jobs = f"jobs:\n  - {keys} compute_jitter: 0.01, step_overhead_ms: 15}}\n"
    fault = "{kind: slow_gpu, rank: 29, factor: 0.7, job: solo, from_step: 4, to_step: 8}"
    cluster = FOUR.replace("6", "16").replace("4", "8")
    (match,) = scored(f"{cluster}{jobs}faults:\n  - {fault}\n", 104).score["faults"]["matches"]
    assert match["localized"]

"""Small worlds, one for each way in which an answer about jobs, pairs or steps was once wrong."""

from __future__ import annotations

import pytest

from llmprism.pipeline import diagnose
from scores import assert_exact

pytestmark = pytest.mark.slow  # each test simulates a world

MODEL = "{layers: 12, hidden: 1024, heads: 8, vocab: 32000, sequence_length: 1024}"
SINGLE = """\
cluster: {servers: %d, gpus_per_server: 1, nics_per_server: 1, nic_gbps: %d,
          fabric: {kind: tor, leaf_ports: 4, spines: 2}}
"""
FOUR = """\
cluster: {servers: 6, gpus_per_server: 4, nics_per_server: 4,
          fabric: {kind: rail, leaf_ports: 6}}
"""


def job(name: str, keys: str, mfu: float = 0.4) -> str:
    """One job in a line of YAML."""
    fixed = f"mfu: {mfu}, compute_jitter: 0.01, step_overhead_ms: 5"
    return f"  - {{name: {name}, model: {MODEL}, {fixed}, {keys}}}\n"


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


BESIDE_GRADIENTS = {
    "experts behind NVLink": (FOUR, "dp: 16, ep: 8, moe: {experts: 8, top_k: 2}"),
    "two expert-parallel ranks": (SINGLE % (8, 200), "dp: 8, ep: 2, moe: {experts: 4, top_k: 1}"),
    "experts and slow links": (SINGLE % (8, 50), "dp: 8, ep: 8, moe: {experts: 8, top_k: 2}"),
    "context parallelism alone": (SINGLE % (4, 200), "cp: 4, sequence_length: 8192"),
    "context and shards": (SINGLE % (8, 200), "cp: 4, dp: 2, zero_stage: 3, sequence_length: 8192"),
    "context and slow links": (SINGLE % (8, 50), "cp: 4, dp: 2, sequence_length: 8192"),
    "context and experts": (
        SINGLE % (8, 200),
        "cp: 2, dp: 4, ep: 4, moe: {experts: 8, top_k: 2}, sequence_length: 8192",
    ),
    "context, experts and stages": (
        SINGLE % (8, 200),
        "cp: 2, dp: 2, pp: 2, ep: 2, moe: {experts: 4, top_k: 2}, sequence_length: 8192",
    ),
    "experts of the only two replicas": (
        SINGLE % (4, 200),
        "dp: 2, ep: 2, pp: 2, moe: {experts: 4, top_k: 1}",
    ),
    "context and data": (SINGLE % (8, 200), "cp: 2, dp: 4, sequence_length: 8192"),
    "tensors and sharded parameters": (SINGLE % (8, 200), "dp: 4, tp: 2, zero_stage: 3"),
    "tensors of four": (SINGLE % (8, 200), "dp: 2, tp: 4"),
    "shards across servers": (FOUR, "dp: 16, zero_stage: 3, hybrid_shards: 8"),
    "stages of unequal volume": (SINGLE % (8, 200), "dp: 2, pp: 4, bucket_params: 9000000"),
}


@pytest.mark.parametrize("world", BESIDE_GRADIENTS)
def test_exchanges_and_parameters_are_distinguished(scored, world):
    cluster, keys = BESIDE_GRADIENTS[world]
    text = cluster + "jobs:\n" + job("solo", f"{keys}, micro_batches: 2, steps: 7")
    assert_exact(scored(text).score)


def test_two_members_that_lose_records_are_no_pipeline(scored):
    collector = "collector: {effects: [{kind: headers}, {kind: loss, probability: 0.03}]}\n"
    keys = "dp: 8, ep: 4, moe: {experts: 8, top_k: 2}, micro_batches: 2, steps: 10"
    run = scored(SINGLE % (8, 200) + "jobs:\n" + job("solo", keys) + collector)
    assert run.score["pairs"]["accuracy"] >= 0.999


def test_a_layout_is_in_doubt_where_gpus_share_a_nic(scored):
    cluster = FOUR.replace("nics_per_server: 4", "nics_per_server: 2")
    keys = "dp: 4, pp: 2, tp: 2, micro_batches: 4, steps: 8"
    layouts = scored(cluster + "jobs:\n" + job("solo", keys)).diagnosis.layouts
    assert (layouts["confidence"] <= 0.5).all()


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_transfers_that_take_as_long_as_passes_do_not_change_the_schedule(scored, schedule):
    """A first stage that has to wait for them seems to compute for longer."""
    model = "{layers: 16, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048}"
    keys = f"dp: 2, pp: 8, micro_batches: 12, steps: 6, schedule: {schedule}, mfu: 0.4"
    collector = (
        "collector: {idle_gap_us: 2000, message_boundary: false, effects: [{kind: headers}]}"
    )
    run = scored(
        SINGLE % (16, 25) + f"jobs:\n  - {{name: a, model: {model}, {keys}}}\n" + collector
    )
    assert run.diagnosis.layouts["schedule"].iloc[0] in (schedule, "unknown")


@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("seed", [1, 2])
def test_chunks_of_an_interleaved_schedule_are_counted(scored, stages, chunks, seed):
    """Two stages have one couple, so no other couple shows how many messages a chunk has."""
    keys = f"dp: 2, pp: {stages}, micro_batches: 8, steps: 8, schedule: interleaved"
    text = SINGLE % (8, 200) + "jobs:\n" + job("a", f"{keys}, chunks: {chunks}")
    run = scored(text.replace("layers: 12", "layers: 24"), seed)
    assert_exact(run.score)
    assert list(run.diagnosis.layouts["schedule"]) == ["interleaved"]
    assert list(run.diagnosis.layouts["micro_batches"]) == [8]


@pytest.mark.parametrize("queue_pairs", [2, 8])
def test_a_message_on_several_queue_pairs_is_one_answer(scored, queue_pairs):
    keys = "dp: 4, pp: 2, micro_batches: 5, steps: 8"
    cluster = (SINGLE % (8, 50)).replace("nic_gbps", f"queue_pairs: {queue_pairs}, nic_gbps")
    run = scored(cluster + "jobs:\n" + job("a", keys))
    assert list(run.diagnosis.layouts["micro_batches"]) == [5]


@pytest.mark.parametrize("micro_batches", [2, 6])
@pytest.mark.parametrize("seed", [1, 2])
def test_chunks_of_two_stages_are_counted_if_the_second_begins_late(scored, micro_batches, seed):
    """Host work of one rank takes longer than that of another by several passes."""
    keys = f"dp: 4, pp: 2, chunks: 2, schedule: interleaved, micro_batches: {micro_batches}"
    text = SINGLE % (8, 200) + "jobs:\n" + job("a", f"{keys}, steps: 8, step_overhead_jitter: 0.2")
    run = scored(text.replace("step_overhead_ms: 5", "step_overhead_ms: 80"), seed)
    assert list(run.diagnosis.layouts["schedule"]) == ["interleaved"]
    assert list(run.diagnosis.layouts["micro_batches"]) == [micro_batches]


@pytest.mark.parametrize("gap_ms", [2, 5, 10])
@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_stays_one_where_each_direction_is_merged_in_its_own_way(scored, stages, gap_ms):
    collector = f"""\
collector:
  idle_gap_us: {gap_ms * 1000}
  message_boundary: false
  effects: [{{kind: headers}}]
"""
    jobs = "jobs:\n" + job("a", f"dp: 4, pp: {stages}, micro_batches: 3, steps: 10")
    run = scored(SINGLE % (16, 100) + jobs + collector)
    assert_exact(run.score)
    layout = run.diagnosis.layouts.iloc[0]
    assert (layout["dp"], layout["pp"]) == (4, stages)
    assert layout["micro_batches"] in (3, -1)
    assert layout["schedule"] in ("1f1b", "unknown")


@pytest.mark.parametrize("seed", [2, 4, 5, 6, 8])
def test_stages_of_tensor_parallel_groups_across_servers_are_joined_by_small_messages(scored, seed):
    """Activations are a thousandth of the bytes of a step, and the last ones end with it."""
    model = "{layers: 24, hidden: 2048, heads: 16, vocab: 51200, sequence_length: 1024}"
    noise = "mfu: 0.37, compute_jitter: 0.018, step_overhead_ms: 9.8"
    keys = f"dp: 2, pp: 2, tp: 2, micro_batches: 2, steps: 12, sequence_parallel: true, {noise}"
    jobs = f"jobs:\n  - {{name: solo, model: {model}, {keys}}}\n"
    assert_exact(scored(SINGLE % (8, 200) + jobs, seed).score)


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


SHARDED = {
    "none": "dp: 4, zero_stage: 0, micro_batches: 8, bucket_params: 9000000",
    "zero1": "dp: 4, pp: 2, zero_stage: 1, micro_batches: 4, bucket_params: 9000000",
    "zero2": "dp: 4, zero_stage: 2, micro_batches: 3, bucket_params: 9000000",
    "zero3": "dp: 4, zero_stage: 3, micro_batches: 2",
    "hybrid": "dp: 8, zero_stage: 3, hybrid_shards: 4, micro_batches: 2",
}


@pytest.mark.parametrize("nic_gbps", [100, 200])
@pytest.mark.parametrize("sharding", SHARDED)
def test_what_is_sharded_shows_in_how_often_each_size_is_sent(scored, sharding, nic_gbps):
    run = scored(SINGLE % (8, nic_gbps) + "jobs:\n" + job("solo", f"{SHARDED[sharding]}, steps: 8"))
    assert list(run.diagnosis.layouts["sharding"]) == [sharding]


UNSEEN = {
    "sharded gradients without accumulation": "dp: 4, zero_stage: 2, micro_batches: 1",
    "gradients of the parameters' size": "dp: 4, zero_stage: 1, micro_batches: 4, "
    "gradient_bytes: 2",
    "shards inside servers": "dp: 16, zero_stage: 3, hybrid_shards: 4, micro_batches: 1",
}


@pytest.mark.parametrize("case", UNSEEN)
def test_sharding_is_unknown_where_volumes_do_not_show_it(scored, case):
    cluster = FOUR if "servers" in case else SINGLE % (8, 200)
    run = scored(cluster + "jobs:\n" + job("solo", f"{UNSEEN[case]}, steps: 8"))
    assert list(run.diagnosis.layouts["sharding"]) == ["unknown"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_pipeline_whose_messages_of_a_step_are_one_record_each_way_is_found_by_its_place(
    scored, seed
):
    """With chunks, both directions begin at nearly the same time, as an exchange does."""
    collector = """\
collector:
  idle_gap_us: 10000
  message_boundary: false
  effects: [{kind: headers}]
"""
    keys = "dp: 4, pp: 2, micro_batches: 8, chunks: 2, schedule: interleaved, steps: 12"
    run = scored(SINGLE % (8, 200) + "jobs:\n" + job("solo", keys) + collector, seed)
    assert_exact(run.score)
    layout = run.diagnosis.layouts.iloc[0]
    assert (layout["dp"], layout["pp"], layout["micro_batches"]) == (4, 2, -1)


@pytest.mark.parametrize(
    "effect",
    [
        "{kind: sampling, one_in: 100}",
        "{kind: observation, point: both}, {kind: clocks, offset_us: 300}",
    ],
)
def test_a_tensor_parallel_group_stays_one_where_telemetry_blurs_its_times(scored, effect):
    cluster = """\
cluster: {servers: 8, gpus_per_server: 2, nics_per_server: 2,
          fabric: {kind: rail, leaf_ports: 8}}
"""
    collector = f"""\
collector:
  idle_gap_us: 5000
  message_boundary: false
  effects: [{{kind: headers}}, {effect}]
"""
    model = "{layers: 12, hidden: 2560, heads: 20, vocab: 50000, sequence_length: 2048}"
    keys = f"model: {model}, dp: 4, pp: 2, tp: 2, micro_batches: 6, steps: 12, mfu: 0.4"
    jobs = f"jobs:\n  - {{name: solo, {keys}, compute_jitter: 0.02, step_overhead_ms: 5}}\n"
    layout = scored(cluster + jobs + collector).diagnosis.layouts.iloc[0]
    assert (layout["dp"], layout["pp"], layout["tp"]) == (4, 2, 2)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_micro_batches_of_sampled_records_are_right_or_unknown(scored, seed):
    collector = """\
collector:
  idle_gap_us: 10000
  message_boundary: false
  effects: [{kind: headers}, {kind: sampling, one_in: 1000}]
"""
    model = "{layers: 16, hidden: 3072, heads: 24, vocab: 32000, sequence_length: 2048}"
    keys = f"model: {model}, dp: 4, pp: 2, micro_batches: 6, steps: 15, mfu: 0.4"
    jobs = f"jobs:\n  - {{name: solo, {keys}, compute_jitter: 0.01, step_overhead_ms: 5}}\n"
    layouts = scored(SINGLE % (8, 200) + jobs + collector, seed).diagnosis.layouts
    assert set(layouts["micro_batches"]) <= {6, -1}


def test_two_replicas_that_exchange_as_much_as_their_pipeline_are_no_stages(scored):
    collector = """\
collector:
  idle_gap_us: 3000
  message_boundary: false
  effects: [{kind: headers}]
"""
    model = "{layers: 8, hidden: 2048, heads: 32, vocab: 64000, sequence_length: 4096}"
    keys = f"model: {model}, dp: 2, pp: 2, micro_batches: 4, micro_batch_size: 16, steps: 9"
    fixed = "zero_stage: 1, mfu: 0.3, compute_jitter: 0.02, step_overhead_ms: 12, recompute: none"
    run = scored(SINGLE % (4, 400) + f"jobs:\n  - {{name: solo, {keys}, {fixed}}}\n" + collector)
    assert run.score["pairs"]["accuracy"] == 1
    layout = run.diagnosis.layouts.iloc[0]
    assert (layout["dp"], layout["pp"]) == (2, 2)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_layers_that_take_longer_than_an_update_leave_the_steps_of_sharded_parameters(
    scored, micro_batches
):
    model = "{layers: 16, hidden: 4096, heads: 32, vocab: 50304, sequence_length: 2048}"
    keys = f"model: {model}, dp: 8, zero_stage: 3, micro_batches: {micro_batches}, steps: 8"
    fixed = "micro_batch_size: 8, mfu: 0.4, compute_jitter: 0.015, step_overhead_ms: 10"
    run = scored(SINGLE % (8, 200) + f"jobs:\n  - {{name: solo, {keys}, {fixed}}}\n")
    assert run.score["timeline"]["coverage"] == 1
    assert len(run.diagnosis.steps) == len(run.truth("steps"))
    assert run.score["timeline"]["dp_end_error_mean"] <= 0.003


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

"""Small worlds in which pauses were taken for steps, or merged records for another kind."""

from __future__ import annotations

import pytest

from scores import assert_exact
from worlds import merged, model, rail, solo

pytestmark = pytest.mark.slow  # each test simulates a world

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


def job(keys: str, layers: int = 12, hidden: int = 1024) -> str:
    """The only job of a world."""
    fixed = "mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 5"
    return f"jobs:\n  - {{name: solo, model: {MODEL % (layers, hidden)}, {fixed}, {keys}}}\n"


def test_pauses_after_every_second_step_of_a_pipeline_join_no_steps(scored):
    pauses = "checkpoint: {every: 2, mode: sync}, evaluation: {every: 4, micro_batches: 5}"
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


@pytest.mark.parametrize(("micro_batches", "every", "evaluated"), [(1, 3, 2), (2, 2, 3), (4, 5, 8)])
def test_exchanges_of_evaluations_are_no_steps(scored, micro_batches, every, evaluated):
    """They need not be a multiple of the steps, which their gradients show."""
    experts = "ep: 8, moe: {experts: 8, top_k: 2}"
    pauses = f"evaluation: {{every: {every}, micro_batches: {evaluated}}}"
    keys = f"dp: 8, micro_batches: {micro_batches}, steps: 10, {experts}, {pauses}"
    run = scored(SINGLE % 200 + job(keys, 12, 2048))
    assert run.score["pairs"]["accuracy"] == 1
    assert run.score["timeline"]["dp_end_error_mean"] <= 0.003
    assert run.diagnosis.steps["step"].nunique() == 10


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


@pytest.mark.parametrize("gap_us", [2000, 10_000])
@pytest.mark.parametrize("nic_gbps", [10, 100])
def test_activations_that_follow_each_other_at_once_are_not_counted(scored, gap_us, nic_gbps):
    """All forward passes come first, and the network is busy until the last of them."""
    keys = "dp: 4, pp: 2, micro_batches: 8, schedule: gpipe, steps: 8"
    run = scored(SINGLE % nic_gbps + job(keys, 8, 4096) + MERGED % gap_us)
    assert list(run.diagnosis.layouts["micro_batches"]) in ([8], [-1])


def test_a_single_micro_batch_is_counted_where_records_are_messages(scored):
    run = scored(SINGLE % 100 + job("dp: 4, pp: 2, micro_batches: 1, steps: 8", 12, 2048))
    assert list(run.diagnosis.layouts["micro_batches"]) == [1]


@pytest.mark.parametrize("seed", [1, 2])
def test_messages_that_are_merged_in_couples_are_not_counted_as_one(scored, seed):
    """The first two activations are always one record, so no record holds a single message."""
    model = "{layers: 12, hidden: 1536, heads: 12, vocab: 40000, sequence_length: 2048}"
    keys = "dp: 4, pp: 2, micro_batches: 6, steps: 8, mfu: 0.45"
    text = f"jobs:\n  - {{name: solo, model: {model}, {keys}}}\n"
    run = scored(SINGLE % 200 + text + MERGED % 10_000, seed)
    assert list(run.diagnosis.layouts["micro_batches"]) in ([6], [-1])


@pytest.mark.parametrize("mfu", [0.5, 0.4])
@pytest.mark.parametrize("seed", [1, 2])
def test_acknowledgements_that_open_a_record_hide_no_pipeline(scored, mfu, seed):
    """Both directions of a pipeline then begin at once, and its gradients take long."""
    acknowledged = MERGED.replace("headers}", "headers}, {kind: acknowledgements, every: 2}")
    model = "{layers: 12, hidden: 1536, heads: 12, vocab: 40000, sequence_length: 2048}"
    keys = f"dp: 2, pp: 2, micro_batches: 4, steps: 8, transport: tcp, mfu: {mfu}"
    text = f"jobs:\n  - {{name: solo, model: {model}, {keys}}}\n"
    run = scored(SINGLE % 50 + text + acknowledged % 5000, seed)
    assert_exact(run.score)
    assert list(run.diagnosis.layouts["pp"]) == [2]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_records_of_two_exporters_whose_clocks_differ_are_counted_once(scored, seed):
    effects = "{kind: observation, point: both}, {kind: clocks, offset_us: 100}"
    collector = f"collector: {{idle_gap_us: 2000, effects: [{effects}]}}\n"
    keys = "dp: 4, pp: 2, micro_batches: 6, steps: 8"
    run = scored(
        SINGLE.replace("leaf_ports: 8", "leaf_ports: 2") % 50 + job(keys, 12, 2560) + collector,
        seed,
    )
    assert list(run.diagnosis.layouts["micro_batches"]) == [6]


def test_a_service_that_goes_on_after_a_job_hides_no_steps(scored):
    """Storage that the job reads and writes a lot joins it to the service."""
    keys = "dp: 4, pp: 2, micro_batches: 4, steps: 10, loading: {bytes_per_token: 2000}, "
    keys += "checkpoint: {every: 3, mode: sync}"
    background = """\
storage: [s0014, s0015]
background:
  - {name: copies, flows_per_s: 20, median_bytes: 3000000, sigma: 0.1, servers: [s0014], to: s0015}
duration_s: 20
"""
    run = scored(SINGLE % 200 + background + job(keys))
    assert run.score["jobs"]["accuracy"] == 1
    assert run.score["timeline"]["coverage"] == 1


@pytest.mark.parametrize("shards", [2, 4])
def test_parameters_of_shards_are_no_tensor_parallelism_in_one_record_a_step(scored, shards):
    keys = f"dp: 8, zero_stage: 3, hybrid_shards: {shards}, micro_batches: 1, steps: 8"
    run = scored(SINGLE % 50 + job(keys, 24, 2048) + MERGED % 5000)
    assert_exact(run.score)


def test_activations_in_records_of_one_and_two_passes_are_no_shards(scored):
    """Half of the bytes of a step are in one record, as reduced gradients of shards are."""
    model = "{layers: 24, hidden: 2048, heads: 16, vocab: 51200, sequence_length: 1024}"
    keys = "dp: 4, tp: 2, micro_batches: 1, steps: 8, mfu: 0.4, step_overhead_ms: 5"
    text = f"jobs:\n  - {{name: solo, model: {model}, {keys}}}\n"
    assert_exact(scored(SINGLE % 200 + text + MERGED % 2000).score)


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("micro_batches", [4, 8])
def test_the_first_answer_shows_a_forward_pass_where_records_are_merged(
    scored, stages, micro_batches
):
    """Host work is a quarter of a step; without an estimate it would be its error."""
    keys = f"dp: 2, pp: {stages}, micro_batches: {micro_batches}, steps: 8"
    text = SINGLE % 200 + job(keys).replace("step_overhead_ms: 5", "step_overhead_ms: 30")
    timeline = scored(text + MERGED % 12000).score["timeline"]
    assert timeline["coverage"] == 1
    assert timeline["step_error_mean"] < 0.08


def test_who_begins_and_ends_a_step_shows_a_pipeline_where_acknowledgements_go_along(scored):
    """TCP on a slow network: both directions move nearly all the time, in merged records."""
    model = "{layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048}"
    keys = "dp: 4, pp: 2, library: {control_bytes: 48}, micro_batches: 8, steps: 9, mfu: 0.53"
    world = SINGLE % 25 + f"jobs:\n  - {{name: solo, model: {model}, {keys}}}\n"
    effects = "[{kind: headers}, {kind: acknowledgements}]"
    run = scored(world + MERGED.replace("[{kind: headers}]", effects) % 5000)
    assert run.score["pairs"]["accuracy"] == 1
    assert run.diagnosis.layouts[["dp", "pp"]].to_numpy().tolist() == [[4, 2]]


def test_messages_are_not_counted_where_one_couple_has_longer_records_than_another(scored):
    keys = "dp: 4, pp: 4, schedule: interleaved, chunks: 2, micro_batches: 8, steps: 10"
    run = scored(SINGLE % 200 + job(keys, 16, 2048) + MERGED % 10000)
    layout = run.diagnosis.layouts.iloc[0]
    assert layout["micro_batches"] in (8, -1)
    assert layout["schedule"] in ("interleaved", "unknown")


@pytest.mark.parametrize("seed", [1, 2])
def test_chunks_of_two_stages_are_unknown_rather_than_micro_batches(scored, seed):
    """Sequences differ in length, so passes show poorly how many there are."""
    keys = "dp: 4, pp: 2, schedule: interleaved, chunks: 2, micro_batches: 6, length_spread: 0.4"
    run = scored(SINGLE % 200 + job(f"{keys}, steps: 10, zero_stage: 0", 16, 2048), seed)
    layout = run.diagnosis.layouts.iloc[0]
    assert layout["micro_batches"] in (6, -1)
    assert layout["schedule"] in ("interleaved", "unknown")


def test_couples_that_rest_longer_are_stages_if_they_move_as_much_as_others(scored):
    """TCP: records of the middle stages hold two messages, those of the last couple one."""
    world = solo(
        rail(16, 2, spines=4, nic_gbps=100), merged(2000, "acknowledgements", "connections"),
        model=model(24, 2048, 16, 50304, 2048), dp=4, pp=4, tp=2, micro_batches=5, steps=12,
        transport="tcp", zero_stage=1, mfu=0.5, compute_jitter=0.01, step_overhead_ms=1.5,
    )  # fmt: skip
    run = scored(world)
    assert run.score["pairs"]["accuracy"] == 1
    assert run.diagnosis.layouts[["dp", "pp", "tp"]].to_numpy().tolist() == [[4, 4, 2]]


def test_lines_of_ranks_are_pipelines_where_few_records_hold_all_messages(scored):
    world = solo(
        rail(32, spines=4, nic_gbps=400), merged(1000, "acknowledgements", "rendezvous"),
        model=model(16, 1024, 16, 50000, 1024), dp=4, pp=8, library={}, micro_batches=19,
        steps=12, zero_stage=1, mfu=0.41, compute_jitter=0.01, step_overhead_ms=7,
    )  # fmt: skip
    run = scored(world)
    assert run.score["pairs"]["accuracy"] == 1  # and the store is no acknowledgement
    layout = run.diagnosis.layouts.iloc[0]
    assert (layout["dp"], layout["pp"], layout["tp"]) == (4, 8, 1)
    assert layout["micro_batches"] in (19, -1)

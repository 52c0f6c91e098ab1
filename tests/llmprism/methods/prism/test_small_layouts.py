"""Layouts in small worlds, one for each way in which an answer was once wrong."""

from __future__ import annotations

import pytest

from scores import assert_exact
from small import FOUR, SINGLE, job

pytestmark = pytest.mark.slow  # each test simulates a world


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

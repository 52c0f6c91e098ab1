"""Kinds of traffic in small worlds, one for each way in which an answer was once wrong."""

from __future__ import annotations

import pytest

from scores import assert_exact
from small import FOUR, SINGLE, job

pytestmark = pytest.mark.slow  # each test simulates a world


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


def test_gradients_that_groups_of_two_replicas_share_are_no_activations(scored):
    """Shards are reduced in every micro-batch and gathered once, in pairs across servers."""
    keys = "dp: 6, zero_stage: 2, hybrid_shards: 2, micro_batches: 4, steps: 8"
    assert_exact(scored(SINGLE % (6, 100) + "jobs:\n" + job("solo", keys)).score)


@pytest.mark.parametrize("seed", [2, 4, 5, 6, 8])
def test_stages_of_tensor_parallel_groups_across_servers_are_joined_by_small_messages(scored, seed):
    """Activations are a thousandth of the bytes of a step, and the last ones end with it."""
    model = "{layers: 24, hidden: 2048, heads: 16, vocab: 51200, sequence_length: 1024}"
    noise = "mfu: 0.37, compute_jitter: 0.018, step_overhead_ms: 9.8"
    keys = f"dp: 2, pp: 2, tp: 2, micro_batches: 2, steps: 12, sequence_parallel: true, {noise}"
    jobs = f"jobs:\n  - {{name: solo, model: {model}, {keys}}}\n"
    assert_exact(scored(SINGLE % (8, 200) + jobs, seed).score)


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

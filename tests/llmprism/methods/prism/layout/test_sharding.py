"""What replicas shard, where sizes of messages are clear, and where only times show it."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.layout.sharding import _repeat

WORLD = """\
cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1, fabric: {kind: tor, leaf_ports: 8}}
collector: {%s}
jobs:
  - {name: solo, model: {layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048},
     mfu: 0.45, compute_jitter: 0.01, steps: 8, dp: 4, pp: 2, %s}
"""
MERGED = "message_boundary: false, idle_gap_us: 500, effects: [{kind: headers}]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collector", "keys", "sharding"),
    [
        ("", "micro_batches: 4, zero_stage: 1, gradient_bytes: 2", "zero1"),
        ("", "micro_batches: 4, zero_stage: 2, gradient_bytes: 2", "zero2"),
        ("", "micro_batches: 4, zero_stage: 3, gradient_bytes: 2", "zero3"),
        ("", "micro_batches: 2, zero_stage: 2, gradient_bytes: 2", "unknown"),
        (MERGED, "micro_batches: 5, zero_stage: 1", "zero1"),
    ],
)
def test_times_show_what_replicas_of_a_pipeline_shard(scored, collector, keys, sharding):
    """Two reductions of as many bytes as are gathered have as many as one of twice the bytes."""
    (layout,) = scored(WORLD % (collector, keys)).diagnosis.layouts.itertuples()
    assert layout.sharding == sharding


@pytest.mark.slow
@pytest.mark.parametrize(("zero_stage", "schedule"), [(1, "1f1b"), (2, "1f1b"), (2, "zb-h1")])
def test_states_sharded_in_groups_of_replicas_are_hybrid(scored, zero_stage, schedule):
    """Groups of four replicas reduce and gather; the shards are then reduced across groups."""
    world = WORLD.replace("servers: 8", "servers: 16").replace("dp: 4", "dp: 8")
    keys = f"zero_stage: {zero_stage}, hybrid_shards: 4, micro_batches: 4, schedule: {schedule}"
    run = scored(world % ("", keys))
    (layout,) = run.diagnosis.layouts.itertuples()
    assert (layout.dp, layout.pp, layout.tp) == (8, 2, 1)
    assert layout.sharding == run.truth("layouts")["sharding"].item() == "hybrid"


@pytest.mark.slow
def test_groups_of_experts_are_no_part_of_hybrid_sharding(scored):
    """Experts and other parameters are reduced and gathered in groups that cross each other."""
    world = WORLD.replace("servers: 8", "servers: 24").replace("dp: 4, pp: 2", "dp: 8, pp: 3")
    world = world.replace("layers: 8, hidden: 2048", "layers: 12, hidden: 1024")
    experts = "ep: 4, moe: {experts: 8, top_k: 1}, zero_stage: 1, bucket_params: 8_000_000"
    keys = f"{experts}, micro_batches: 3, schedule: interleaved, chunks: 2"
    (layout,) = scored(world % ("", keys)).diagnosis.layouts.itertuples()
    assert layout.ep == 4
    assert layout.sharding in ("zero1", "unknown")


def test_sizes_that_differ_from_step_to_step_are_those_of_no_messages():
    """A record that holds several messages ends by chance."""

    def cell(*size):
        return np.arange(len(size)), np.arange(len(size)), np.array(size)

    messages = [cell(30, 20, 50)] * 8
    assert _repeat(messages)
    assert _repeat([*messages, *messages, cell(50, 20)])  # of which one is lost
    assert not _repeat([cell(30, 70), cell(50, 50), cell(20, 80), cell(30, 70)])

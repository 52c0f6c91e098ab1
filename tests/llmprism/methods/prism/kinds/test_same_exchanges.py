"""Exchanges of the passes: the same kind in all stages, and one axis of the layout each."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow  # each test simulates a world

WORLD = """\
cluster: {servers: %d, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 200,
          fabric: {kind: tor, leaf_ports: 8, spines: 4}}
collector: {idle_gap_us: %d}
jobs:
  - {name: solo, model: {layers: 8, hidden: 2048, heads: 16, vocab: 50304, sequence_length: 2048},
     mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 2, steps: 6, %s}
"""
MOE = "moe: {experts: 8, top_k: 1}"
LAYOUTS = [
    "dp: 4, pp: 2, cp: 2, zero_stage: 2, micro_batches: 4",
    "dp: 4, pp: 4, cp: 2, zero_stage: 2, micro_batches: 8, schedule: interleaved, chunks: 2",
    "dp: 4, pp: 2, tp: 2, cp: 2, zero_stage: 3, micro_batches: 4",
    "dp: 2, pp: 2, tp: 2, zero_stage: 3, micro_batches: 1, schedule: zb-h1",
    f"dp: 4, tp: 2, ep: 4, {MOE}, zero_stage: 0, micro_batches: 4",
    f"dp: 4, pp: 2, tp: 2, ep: 2, {MOE}, zero_stage: 0, micro_batches: 4, schedule: zb-h1",
    f"dp: 2, pp: 4, ep: 2, {MOE}, zero_stage: 1, micro_batches: 8, schedule: gpipe",
]


def number(keys: str, axis: str) -> int:
    """Ranks along an ``axis`` in the ``keys`` of a job."""
    found = [part.split(": ")[1] for part in keys.split(", ") if part.startswith(f"{axis}: ")]
    return int(found[0]) if found else 1


@pytest.mark.parametrize("idle_gap_us", [100, 2000])
@pytest.mark.parametrize("keys", LAYOUTS)
def test_exchanges_have_one_kind_in_all_stages(scored, keys, idle_gap_us):
    axes = {axis: number(keys, axis) for axis in ("dp", "pp", "tp", "ep", "cp")}
    ranks = axes["dp"] * axes["pp"] * axes["tp"] * axes["cp"]
    axes["dp"] //= axes["ep"]  # replicas of all experts: the sizes make one grid
    run = scored(WORLD % (ranks, idle_gap_us, keys))
    assert run.score["pairs"]["accuracy"] == 1
    assert run.diagnosis.layouts[list(axes)].to_dict("records") == [axes]


def test_everyone_with_everyone_are_experts_also_if_servers_hide_most_of_a_ring(scored):
    """The exchange joins more NICs than any ring of gradients that the network shows."""
    cluster = """\
cluster: {servers: 32, gpus_per_server: 8, nics_per_server: 8, nic_gbps: 400,
          fabric: {kind: rail, leaf_ports: 32, spines: 4}}
jobs:
"""
    keys = "dp: 8, pp: 8, tp: 4, ep: 8, moe: {experts: 8, top_k: 2, imbalance: 0.1}, zero_stage: 2"
    model = "{layers: 16, hidden: 2048, heads: 32, vocab: 32000, sequence_length: 4096}"
    passes = "mfu: 0.38, micro_batch_size: 2, micro_batches: 2, steps: 5, step_overhead_ms: 20"
    run = scored(f"{cluster}  - {{name: solo, model: {model}, {keys}, {passes}}}\n")
    assert run.score["pairs"]["accuracy"] == 1
    assert run.diagnosis.layouts["ep"].tolist() == [8]

"""Parameters that are gathered after a long wait belong to the step before that wait."""

from __future__ import annotations

import numpy as np
import pytest

from step_ends import steps_beside_truth
from worlds import model, rail, solo

MS = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "tied"), [("1f1b", False), ("gpipe", True)])
def test_gathers_that_wait_for_all_stages_end_their_own_step(scored, schedule, tied):
    world = solo(
        rail(12, nic_gbps=100),
        model=model(12, 1024, 8, 64000, 1024), dp=2, zero_stage=2, pp=6, schedule=schedule,
        micro_batches=18, steps=8, mfu=0.4, compute_jitter=0.01, step_overhead_ms=3,
        gradient_norm=True, sync_embeddings=tied,
    )  # fmt: skip
    run = scored(world)
    both = steps_beside_truth(run)
    assert len(both) == 12 * 8
    assert np.abs(both["end_ns_found"] - both["end_ns"]).max() < 0.1 * MS
    assert run.score["timeline"]["dp_end_error_mean"] < 0.001


LAST_GATHERS = """\
cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 100, gpu_spread: 0,
          fabric: {kind: tor, leaf_ports: 1, spines: 4}}
jobs:
  - {name: a, model: {layers: 8, hidden: 1536, heads: 16, vocab: 32000, sequence_length: 2048},
     dp: 2, pp: 4, zero_stage: 1, schedule: zb-h1, micro_batches: 3, steps: 13, mfu: 0.557,
     compute_jitter: 0.0226, step_overhead_ms: 0, step_overhead_jitter: 0.231, start_s: 0.73,
     sync_embeddings: true}
"""


@pytest.mark.slow
def test_the_last_step_but_one_ends_with_its_gathers(scored):
    """The last step has its own, so those before it belong to none of equal steps."""
    both = steps_beside_truth(scored(LAST_GATHERS, 401))
    assert np.abs(both["end_ns_found"] - both["end_ns"]).max() < 0.1 * MS

"""Parameters that are gathered after a long wait belong to the step before that wait."""

from __future__ import annotations

import numpy as np
import pytest

from step_ends import steps_beside_truth

MS = 1_000_000
WORLD = """\
cluster: {servers: 12, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 100,
          fabric: {kind: rail, leaf_ports: 12}}
jobs:
  - name: solo
    model: {layers: 12, hidden: 1024, heads: 8, vocab: 64000, sequence_length: 1024}
    dp: 2
    zero_stage: 2
    pp: 6
    schedule: %(schedule)s
    micro_batches: 18
    steps: 8
    mfu: 0.4
    compute_jitter: 0.01
    step_overhead_ms: 3
    gradient_norm: true
    sync_embeddings: %(tied)s
"""


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "tied"), [("1f1b", "false"), ("gpipe", "true")])
def test_gathers_that_wait_for_all_stages_end_their_own_step(scored, schedule, tied):
    run = scored(WORLD % {"schedule": schedule, "tied": tied})
    both = steps_beside_truth(run)
    assert len(both) == 12 * 8
    assert np.abs(both["end_ns_found"] - both["end_ns"]).max() < 0.1 * MS
    assert run.score["timeline"]["dp_end_error_mean"] < 0.001

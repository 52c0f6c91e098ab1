"""Micro-batches of sharded parameters where one record in a hundred is lost."""

from __future__ import annotations

import numpy as np
import pytest

WORLD = """\
cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1,
          fabric: {kind: tor, leaf_ports: 8, spines: 2}}
jobs:
  - name: train
    model: {layers: 16, hidden: 4096, heads: 32, vocab: 32000, sequence_length: 2048}
    dp: 8
    zero_stage: 3
    micro_batches: %d
    steps: 12
    mfu: 0.4
    compute_jitter: 0.01
    step_overhead_ms: 5
collector: {effects: [{kind: loss, probability: 0.01}]}
"""


@pytest.mark.parametrize(("micro_batches", "seed"), [(2, 31), (4, 32)])
def test_micro_batches_are_no_steps_beyond_doubt(scored, micro_batches, seed):
    """Every second or fourth part has a longer silence inside: an update, or a pause."""
    steps = scored(WORLD % micro_batches, seed).diagnosis.steps
    assert np.unique(steps["step"]).size == 12 or steps["confidence"].max() <= 0.5

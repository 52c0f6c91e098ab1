"""Restarts after which, or before which, a job takes too few steps to show them."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.jobs.short_attempts import _Steps
from scores import assert_exact

pytestmark = pytest.mark.slow  # each test simulates a world

CLUSTER = """\
cluster: {servers: 8, gpus_per_server: 2, nics_per_server: 2, nic_gbps: 100,
          fabric: {kind: rail, leaf_ports: 8, spines: 2}}
"""
MODEL = "{layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048}"
LAYOUTS = {
    "pipeline": "dp: 4, pp: 2, micro_batches: 4",
    "replicas": "dp: 8, micro_batches: 2",
    "shards": "dp: 8, zero_stage: 3, micro_batches: 2",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("failed", [1, 2, 6, 7])
def test_steps_of_a_short_attempt_are_counted_by_the_bytes_of_the_other_one(scored, layout, failed):
    restart = f"{{step: {failed}, into_step_s: 0.01, rank: 1, noticed_after_s: 0.3, down_s: 1.5}}"
    fixed = "mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 10, steps: 8"
    job = f"{{name: solo, model: {MODEL}, {fixed}, {LAYOUTS[layout]}, restarts: [{restart}]}}"
    assert_exact(scored(f"{CLUSTER}jobs:\n  - {job}\n").score)


def test_connections_without_payload_are_no_attempt():
    steps = _Steps(np.arange(3), np.full(3, 1000.0), np.array([500]), 0.99)
    assert steps._count(np.zeros(3)) == 0
    assert steps._count(np.full(3, 2.0)) == 2


@pytest.mark.parametrize(("layout", "failed"), [("replicas", (1, 3)), ("pipeline", (1, 2))])
def test_short_attempts_that_follow_each_other_have_steps_of_their_own(scored, layout, failed):
    restarts = ", ".join(
        f"{{step: {step}, into_step_s: 0.01, rank: 1, noticed_after_s: 1, down_s: 2}}"
        for step in failed
    )
    fixed = "mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 10, steps: 10"
    job = f"{{name: solo, model: {MODEL}, {fixed}, {LAYOUTS[layout]}, restarts: [{restarts}]}}"
    assert_exact(scored(f"{CLUSTER}jobs:\n  - {job}\n").score)

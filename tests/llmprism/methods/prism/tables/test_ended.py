"""Steps that were never ended, and what storage returns before an attempt of a job."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import llmprism
from llmprism.methods.prism.timeline.pauses import find_pauses
from scores import assert_exact

CLUSTER = """\
cluster: {servers: 5, gpus_per_server: 2, nics_per_server: 2, nic_gbps: 200,
          fabric: {kind: rail, leaf_ports: 8, spines: 2}}
storage: [s0004]
"""
MODEL = "{layers: 8, hidden: 1024, heads: 8, vocab: 32000, sequence_length: 1024}"
FIXED = "mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 2"


def world(keys: str, failed: tuple[int, ...] = (7,)) -> str:
    """A job with checkpoints that fails in some of its steps."""
    restarts = ", ".join(
        f"{{step: {step}, into_step_s: 0.01, rank: 1, noticed_after_s: 2, down_s: 3}}"
        for step in failed
    )
    return (
        f"{CLUSTER}jobs:\n  - {{name: solo, model: {MODEL}, {FIXED}, {keys}, steps: 13, "
        f"restarts: [{restarts}]}}\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_a_pipeline_whose_replicas_share_servers_shows_unfinished_steps(scored, schedule):
    keys = f"dp: 2, pp: 4, micro_batches: 8, schedule: {schedule}"
    run = scored(world(keys + ", checkpoint: {every: 4, mode: async}"))
    found, true = run.diagnosis.steps, run.truth("steps")
    assert found.groupby("address").size().tolist() == [true["step"].nunique()] * 8


@pytest.mark.slow
@pytest.mark.parametrize("failed", [(5,), (5, 8)])
def test_storage_that_is_read_before_an_attempt_and_written_in_it_is_in_no_job(scored, failed):
    keys = "dp: 4, tp: 2, micro_batches: 2, zero_stage: 3, checkpoint: {every: 3, mode: sync}"
    assert_exact(scored(world(keys, failed)).score)


def test_what_is_written_and_read_later_alone_is_no_job():
    """The ranks share a server; only their checkpoints, and a restart, are seen."""
    rows = [(0, "a", "store"), (9, "store", "a"), (11, "a", "store"), (14, "a", "store")]
    flows = pd.DataFrame(
        {
            "start_ns": [at * 10**9 for at, _, _ in rows],
            "end_ns": [at * 10**9 + 8 * 10**8 for at, _, _ in rows],
            "src": [src for _, src, _ in rows],
            "dst": [dst for _, _, dst in rows],
            "bytes": [10**9] * 4,
            "src_port": [1, 2, 3, 3],
            "dst_port": [4791] * 4,
        }
    ).astype({"src_port": "int32", "dst_port": "int32"})
    ends = [{"address": name, "server": name, "nic": 0} for name in ("a", "store")]
    found = llmprism.diagnose(flows, {"endpoints": ends, "switches": [], "links": []})
    assert found.jobs.empty


def test_pauses_may_be_regular_in_each_attempt():
    late = np.isin(np.arange(16), [3, 6, 9, 12, 15])
    firsts = np.array([0, 4, 7])
    end = np.arange(1, 17) * 100.0 + np.cumsum(late) * 90.0
    pause = find_pauses((end - 20)[None, :], end[None, :], firsts)
    assert np.flatnonzero(pause > 80).tolist() == [3, 6, 9, 12, 15]

"""Passes and gradients of one step have one number, where an attempt ends between them."""

from __future__ import annotations

import numpy as np
import pytest

from worlds import model, rail, solo

RESTARTED = solo(
    rail(8, nic_gbps=200),
    model=model(8, 2560, 20, 50304, 2048), dp=2, zero_stage=0, pp=4, micro_batches=5, steps=10,
    mfu=0.4, step_overhead_ms=12, sync_embeddings=True,
    restarts=[{"step": 4, "rank": 0, "into_step_s": 0.036, "noticed_after_s": 1, "down_s": 2}],
)  # fmt: skip
MS = 1_000_000


@pytest.mark.slow
def test_passes_without_gradients_at_the_end_of_an_attempt_cost_no_step_at_its_begin(scored):
    run = scored(RESTARTED)
    ranks = run.truth("ranks").query("pp == 0")
    true = run.truth("steps").merge(ranks, on=["job", "rank"]).groupby("address")
    found = run.diagnosis.steps.groupby("address")
    for address, steps in true:
        ends = found.get_group(address)["end_ns"].to_numpy()
        assert ends.size == len(steps) == 10
        assert np.abs(ends - np.sort(steps["end_ns"])).max() < 2 * MS

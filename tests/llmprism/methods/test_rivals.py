"""The methods that others are compared with: each finds what its idea can find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from llmprism.methods.rivals import period_of, records_in_a_step, slow_stretches
from llmprism.pipeline import diagnose
from small_jobs import make_world


@pytest.mark.parametrize("period", [7, 40, 333])
def test_the_period_of_noisy_counts_is_found(period: int) -> None:
    draws = np.random.default_rng(period)
    pattern = draws.exponential(1.0, period)
    counts = np.tile(pattern, 30) + draws.normal(0, 0.05, 30 * period)
    assert period_of(counts) == period
    assert period_of(np.ones(100)) == 0


def test_records_that_repeat_show_how_many_make_a_step() -> None:
    assert records_in_a_step(np.tile([3, 3, 1, 2, 3], 12)) == 5
    assert records_in_a_step(np.arange(50)) == 0


def steps_of(times_ns: list[int]) -> pd.DataFrame:
    ends = np.cumsum(times_ns)
    return pd.DataFrame(
        {
            "step": range(len(times_ns)), "job": "a", "address": "x",
            "start_ns": ends - times_ns, "end_ns": ends,
        }
    )  # fmt: skip


def test_a_slower_level_is_a_finding_and_noise_is_not() -> None:
    noise = np.random.default_rng(1).normal(0, 1e5, 60)
    level = np.r_[np.full(30, 1e7), np.full(30, 1.5e7)]
    (found,) = slow_stretches(steps_of((level + noise).astype(np.int64).tolist()))
    assert (found["first_step"], found["last_step"]) == (30, 59)
    assert found["magnitude"] == pytest.approx(1 / 3, abs=0.01)
    assert slow_stretches(steps_of((1e7 + noise).astype(np.int64).tolist())) == []
    slightly = np.r_[np.full(30, 1e7), np.full(30, 1.05e7)]
    assert slow_stretches(steps_of((slightly + noise).astype(np.int64).tolist())) == []


@pytest.mark.parametrize("method", ["null", "autocorrelation", "changepoints"])
def test_connected_servers_are_a_job(method: str, tmp_path: Any) -> None:
    world = make_world(steps=8)
    diagnosis = diagnose(*world.save(tmp_path), method=method)
    assert set(diagnosis.jobs["address"]) == set(world.ranks["address"])
    assert diagnosis.steps.empty == (method == "null")
    assert diagnosis.findings.empty

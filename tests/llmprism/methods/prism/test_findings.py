"""Whole worlds, through the public contract: method ``prism`` names what was slow, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run

STEPS = 16


def findings(run: Run) -> pd.DataFrame:
    return diagnose(run.flows, run.topology, method="prism").findings


@pytest.fixture
def replicas(simulated: Callable[..., Run]) -> Callable[..., Run]:
    def make(*faults: dict[str, Any], folder: str = "run", **fields: Any) -> Run:
        return simulated(folder, dp=4, tp=8, steps=STEPS, faults=list(faults), **fields)

    return make


@pytest.mark.parametrize(("first", "last"), [(0, 3), (7, 7), (9, 15)])
def test_a_slow_gpu_is_named_for_windows_of_any_length(
    replicas: Callable[..., Run], first: int, last: int
) -> None:
    fault = {"kind": "slow_gpu", "job": "a", "rank": 9, "factor": 0.4, "from_step": first}
    table = findings(replicas(fault | {"to_step": last + 1}))
    assert len(table) == 1
    only = table.iloc[0]
    assert only["cause"] in ("slow_gpu", "slow_server")
    assert only["culprit"].startswith("10.0.1.") or only["culprit"] == "s0001"
    assert abs(only["first_step"] - first) <= 1
    assert abs(only["last_step"] - last) <= 1


def test_a_healthy_job_has_no_finding(replicas: Callable[..., Run]) -> None:
    assert findings(replicas(compute_jitter=0.02)).empty


def test_two_faults_one_after_the_other_are_two_findings(replicas: Callable[..., Run]) -> None:
    slow = {"kind": "slow_gpu", "job": "a", "factor": 0.4}
    table = findings(
        replicas(
            slow | {"rank": 1, "from_step": 2, "to_step": 5},
            slow | {"rank": 25, "from_step": 9, "to_step": 13},
        )
    )
    assert len(table) == 2
    assert table["culprit"].nunique() == 2


def test_the_cost_is_what_the_job_lost(replicas: Callable[..., Run]) -> None:
    fault = {
        "kind": "slow_gpu",
        "job": "a",
        "rank": 9,
        "factor": 0.4,
        "from_step": 6,
        "to_step": 10,
    }
    slow, healthy = replicas(fault), replicas(folder="healthy")
    ends = [run.truth("steps")["end_ns"].max() for run in (slow, healthy)]
    assert findings(slow)["cost"].sum() == pytest.approx(ends[0] - ends[1], rel=0.1)


def test_saves_that_share_the_nics_of_a_job_are_no_finding(simulated: Callable[..., Run]) -> None:
    """Each save slows the transfers of one step; records show it, as bytes to the storage."""
    run = simulated(
        dp=4,
        tp=8,
        steps=30,
        cluster={"servers": 5},
        storage=["s0004"],
        checkpoint={"every": 9, "mode": "async"},
    )
    assert findings(run).empty


def test_sequences_of_unequal_length_are_uneven_work(simulated: Callable[..., Run]) -> None:
    fault = {"kind": "length_imbalance", "job": "a", "spread": 0.4, "from_step": 5, "to_step": 11}
    cluster = {"servers": 8, "gpus_per_server": 1, "nics_per_server": 1}
    table = findings(simulated(dp=8, steps=20, micro_batches=8, cluster=cluster, faults=[fault]))
    assert table["cause"].tolist() == ["length_imbalance"]
    assert table["culprit_kind"].tolist() == ["job"]

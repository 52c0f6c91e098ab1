"""The truth names the communication that a span belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tiny import simulate_one

COMPUTED = {"fwd", "bwd", "wgrad", "opt"}
MESSAGES = {"send_act", "recv_act", "send_grad", "recv_grad"}
LARGE = {"cluster": {"servers": 8}}


def spans_of(folder: Path, **fields: Any) -> pd.DataFrame:
    """True spans of one job, each with the place of its rank."""
    run = simulate_one(folder, **fields)
    return run.truth("spans").merge(run.truth("ranks"), on=["job", "rank"])


JOBS: dict[str, dict[str, Any]] = {
    "pipeline": {"dp": 2, "pp": 2, "tp": 2},
    "fully-sharded": {"dp": 4, "zero_stage": 3},
    "tensor-parallel-across-servers": {"dp": 2, "tp": 16},
    "context-parallel": {"dp": 2, "cp": 4},
    "experts": {"dp": 4, "ep": 2, "tp": 4, "moe": {"experts": 4, "imbalance": 0.4}},
    "evaluation": {"dp": 2, "pp": 2, "evaluation": {"every": 1, "micro_batches": 2}},
}


@pytest.mark.parametrize("name", JOBS)
def test_only_communications_are_named_and_all_of_them(name: str, tmp_path: Path) -> None:
    spans = spans_of(tmp_path, **LARGE, **JOBS[name])
    computed = spans["kind"].isin({*COMPUTED, "eval_fwd"})
    assert spans.loc[computed, "communication"].isna().all()
    assert spans.loc[~computed, "communication"].notna().all()


@pytest.mark.parametrize("name", JOBS)
def test_members_of_a_communication_agree_on_its_kind(name: str, tmp_path: Path) -> None:
    spans = spans_of(tmp_path, **LARGE, **JOBS[name])
    collectives = spans[~spans["kind"].isin(MESSAGES)]
    by = collectives.groupby("communication")
    assert (by[["job", "step", "kind", "end_ns"]].nunique() == 1).all(axis=None)
    assert (by["rank"].nunique() == by.size()).all(), "a rank takes part once"


def test_both_ends_of_a_message_share_its_number(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, dp=2, pp=2, tp=2)
    messages = spans[spans["kind"].isin(MESSAGES)]
    for _, ends in messages.groupby("communication"):
        assert sorted(ends["kind"]) in (["recv_act", "send_act"], ["recv_grad", "send_grad"])
        assert (ends[["dp", "tp", "step", "micro_batch"]].nunique() == 1).all()
        assert set(ends["pp"]) == {0, 1}


def test_groups_of_hybrid_sharding_are_separate_although_one_is_late(tmp_path: Path) -> None:
    slow = {"kind": "slow_gpu", "job": "a", "rank": 0, "factor": 0.5, "from_step": 0}
    spans = spans_of(tmp_path, dp=4, zero_stage=2, hybrid_shards=2, faults=[slow])
    scattered = spans[spans["kind"] == "reduce_scatter"]
    members = set(scattered.groupby("communication")["dp"].agg(frozenset))
    assert members == {frozenset({0, 1}), frozenset({2, 3})}
    across = spans[spans["kind"] == "all_reduce"]
    members = set(across.groupby("communication")["dp"].agg(frozenset))
    assert members == {frozenset({0, 2}), frozenset({1, 3})}
    own = scattered[scattered["dp"].isin({2, 3})]
    others = scattered[scattered["dp"].isin({0, 1})]
    assert not set(own["communication"]) & set(others["communication"])
    assert own["end_ns"].max() < others["end_ns"].max(), "the slow rank delays its own group only"


def test_a_tensor_parallel_group_across_servers_communicates_as_one(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, **LARGE, dp=2, tp=16)
    sums = spans[spans["kind"] == "tp_all_reduce"]
    assert (sums.groupby("communication")["tp"].agg(frozenset) == frozenset(range(16))).all()


def test_saves_and_reads_are_communications_of_one_rank(tmp_path: Path) -> None:
    run = simulate_one(
        tmp_path, dp=2, storage=["s0003"], loading={}, checkpoint={"every": 1, "mode": "async"}
    )
    spans = run.truth("spans")
    stored = spans[spans["kind"].isin({"load", "checkpoint"})]
    assert len(stored)
    assert stored["communication"].is_unique

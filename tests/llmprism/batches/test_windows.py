"""A job with too many records: windows of time, and their steps as those of one recording."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from llmprism.pipeline import diagnose
from shared import made_once
from tiny import simulate_one

STEPS = 100
SLOW = {"kind": "slow_gpu", "job": "a", "rank": 5, "factor": 0.4, "from_step": 40, "to_step": 60}


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long job; one GPU is slow while one window ends and the next one begins."""

    def make(folder: Path) -> None:
        cluster = {"servers": 16, "gpus_per_server": 1, "nics_per_server": 1}
        job = {"dp": 4, "pp": 4, "micro_batches": 8, "steps": STEPS, "compute_jitter": 0.01}
        simulate_one(folder / "run", cluster=cluster, faults=[SLOW], step_overhead_ms=5, **job)

    return made_once(tmp_path_factory, "long-job", make) / "run"


@pytest.mark.parametrize("parts_of_whole", [3, 20])
def test_windows_have_the_answers_of_the_whole(world: Path, parts_of_whole: int) -> None:
    """A twentieth has five steps; then windows are as large as 24 steps need."""
    flows, topology = world / "flows.parquet", world / "topology.json"
    whole = diagnose(flows, topology)
    work: list[str] = []
    parts = diagnose(
        flows,
        topology,
        progress=lambda _, doing: work.append(doing),
        records_at_once=pq.read_metadata(flows).num_rows // parts_of_whole,
    )
    assert any(one.startswith("window 3 of ") for one in work)
    assert not any(one.startswith("window 10 of ") for one in work)
    assert parts.intake == whole.intake
    axes = ["dp", "pp", "tp", "micro_batches", "schedule"]
    assert parts.layouts[axes].to_dict("list") == whole.layouts[axes].to_dict("list")
    both = whole.steps.merge(parts.steps, on=["address", "step"], suffixes=("", "_parts"))
    assert len(both) == len(whole.steps) == len(parts.steps) == 16 * STEPS
    period = whole.steps.groupby("step")["end_ns"].max().diff().median()
    for name, most in (("dp_end_ns", 0.001), ("end_ns", 0.001), ("start_ns", 0.03)):
        assert (both[name] - both[f"{name}_parts"]).abs().max() < most * period
    for name in ("jobs", "pairs", "groups"):
        assert len(getattr(parts, name)) == len(getattr(whole, name))
    assert parts.verdict.figures["jobs"][0]["records"] == pytest.approx(len(pq.read_table(flows)))
    assert parts.verdict.figures["jobs"][0]["steps_commonest"] == STEPS


def test_spans_of_windows_are_those_of_their_steps(world: Path) -> None:
    flows, topology = world / "flows.parquet", world / "topology.json"
    whole = diagnose(flows, topology).spans
    parts = diagnose(flows, topology, records_at_once=pq.read_metadata(flows).num_rows // 3).spans
    keys = ["kind", "address", "step"]
    expected, found = (
        table.astype({"kind": str, "address": str}).groupby(keys)["end_ns"].max()
        for table in (whole, parts)
    )
    for kind in ("dp", "pp"):
        pd.testing.assert_series_equal(found[kind], expected[kind], check_index_type=False)


def test_a_fault_that_lasts_over_a_border_is_one_finding(world: Path) -> None:
    flows, topology = world / "flows.parquet", world / "topology.json"
    (one,) = diagnose(flows, topology).findings.to_dict("records")
    at_once = pq.read_metadata(flows).num_rows // 3
    (found,) = diagnose(flows, topology, records_at_once=at_once).findings.to_dict("records")
    for name in ("cause", "culprit", "first_step", "last_step"):
        assert found[name] == one[name]
    assert found["cost"] == pytest.approx(one["cost"], rel=0.1)


def test_a_job_with_few_steps_in_all_is_diagnosed_as_a_whole(world: Path, tmp_path: Path) -> None:
    flows, topology = tmp_path / "flows.parquet", world / "topology.json"
    table = pq.read_table(world / "flows.parquet")
    pq.write_table(table.slice(0, table.num_rows // 3), flows)  # of 33 steps
    whole = diagnose(flows, topology)
    at_once = pq.read_metadata(flows).num_rows // 7
    parts = diagnose(flows, topology, records_at_once=at_once)
    pd.testing.assert_frame_equal(parts.steps, whole.steps, check_dtype=False)

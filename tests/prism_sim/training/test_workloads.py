"""Bundled workloads, and layouts of jobs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_sim.loading.loader import load_with_warnings
from prism_sim.toolkit import Run, load_tables, simulate, stage_costs

AXES = ["dp", "pp", "tp", "ep", "cp"]
EXPERTS = {"moe": {"experts": 4}, "ep": 2}


@pytest.mark.parametrize(
    ("fields", "sizes", "rest"),
    [
        (
            {"dp": 2, "pp": 2, "tp": 2, "micro_batches": 3, "zero_stage": 0},
            [2, 2, 2, 1, 1],
            [3, "1f1b", "none"],
        ),
        ({"dp": 4, "pp": 1, "tp": 1, "zero_stage": 3}, [4, 1, 1, 1, 1], [2, "none", "zero3"]),
        (
            {"dp": 4, "pp": 1, "tp": 1, "zero_stage": 3, "hybrid_shards": 2},
            [4, 1, 1, 1, 1],
            [2, "none", "hybrid"],
        ),
        ({"dp": 4, "pp": 1, "tp": 1, **EXPERTS}, [2, 1, 1, 2, 1], [2, "none", "zero1"]),
        ({"dp": 1, "pp": 2, "tp": 1, "schedule": "gpipe"}, [1, 2, 1, 1, 1], [2, "gpipe", "none"]),
    ],
)
def test_layouts_of_the_truth_are_those_of_the_scenario(simulated, fields, sizes, rest):
    run = simulated(placement="spread", **{"micro_batches": 2, "steps": 3, **fields})
    (row,) = run.truth("layouts").to_dict("records")
    assert [row[axis] for axis in AXES] == sizes
    assert np.prod(sizes) == len(run.truth("ranks"))
    assert [row[name] for name in ("micro_batches", "schedule", "sharding")] == rest
    steps = run.truth("steps")
    assert row["period_ns"] == int((steps["end_ns"] - steps["start_ns"]).median())


def test_a_truth_without_layouts_is_scored(simulated):
    """Captures from elsewhere have none."""
    run = simulated(dp=2, pp=1, steps=3)
    (run.folder / "truth" / "layouts.parquet").unlink()
    from llmprism.pipeline import diagnose

    diagnose(run.flows, run.topology).write(run.diagnosis_folder)
    assert load_tables(run).truth["layouts"].empty


FOLDER = Path(__file__).parents[3] / "scenarios" / "workloads"
SCENARIOS = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_workload_runs_to_its_end(path, tmp_path):
    scenario = load_with_warnings(path).scenario
    run = Run(tmp_path)
    simulate(scenario, run)
    flows, steps, pairs = pd.read_parquet(run.flows), run.truth("steps"), run.truth("pairs")
    assert (flows["end_ns"] >= flows["start_ns"]).all()
    assert flows["bytes"].sum() == pairs["bytes"].sum()
    known = {endpoint["address"] for endpoint in json.loads(run.topology.read_text())["endpoints"]}
    assert known >= {*flows["src"].astype(str), *flows["dst"].astype(str)}
    restarted = {job.name for _, job in scenario.modelled if job.restarts}
    for job in scenario.jobs:
        own = steps[steps["job"] == job.name]
        made = own.groupby("rank").size()
        assert made.index.tolist() == list(range(job.ranks))
        assert (made >= job.steps if job.name in restarted else made == job.steps).all()
        after = own.groupby("rank")["end_ns"].shift()
        assert ((own["start_ns"] >= after) | after.isna()).all()
    assert set(pairs["kind"]) <= {"dp", "pp", "ep", "cp", "tp", "other"}


def test_the_last_of_uneven_stages_is_as_long_as_in_the_trace():
    """Means of forward and backward in StragglerAnalysis' trace ST [ms]: last stage, others."""
    scenario = load_with_warnings(FOLDER / "uneven-stages.yaml").scenario
    ((_, job),) = scenario.modelled
    costs = stage_costs(job, scenario.cluster)
    *others, last = (cost.forward_ns + cost.backward_ns for cost in costs)
    measured = (139.7 + 203.5) / (67.1 + 143.4)
    assert last / (sum(others) / len(others)) == pytest.approx(measured, rel=0.01)


def test_there_is_something_to_run():
    assert len(SCENARIOS) > 10

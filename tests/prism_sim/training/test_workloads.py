"""Every bundled workload runs to its end, and its records agree with its truth."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from prism_sim.loading.loader import load_with_warnings
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate
from prism_sim.training.costs import stage_costs

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

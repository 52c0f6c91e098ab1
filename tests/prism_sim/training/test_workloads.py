"""Every bundled workload runs to its end, and its records agree with its truth."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from prism_sim.run import Run
from prism_sim.scenario.loading import load_with_warnings
from prism_sim.simulate import simulate

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


def test_there_is_something_to_run():
    assert len(SCENARIOS) > 10

"""The prism method on real traffic: captures made without this project's simulator.

The bars are those that a careful analysis reached that was given the right pairs and the
number of steps (the method is given neither).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, score_run

CAPTURES = Path(__file__).parents[3] / "fixtures" / "captures"
CASES = [
    (case.name, flows.name)
    for case in sorted(CAPTURES.iterdir())
    for flows in sorted(case.glob("flows*.parquet"))
]


@pytest.fixture
def scored(request, tmp_path):
    case, flows = request.param
    shutil.copytree(CAPTURES / case, tmp_path / "run")
    run = Run(tmp_path / "run")
    diagnosis = diagnose(CAPTURES / case / flows, run.topology, method="prism")
    diagnosis.write(run.diagnosis_folder)
    score_run(run)
    return run.read_json(run.score), diagnosis


@pytest.mark.parametrize("scored", CASES, indirect=True, ids=["-".join(case) for case in CASES])
def test_jobs_pairs_and_steps_of_real_captures_are_right(scored):
    score, _ = scored
    timeline = score["timeline"]
    assert score["jobs"]["accuracy"] == 1.0
    assert score["pairs"]["accuracy"] == 1.0
    assert timeline["coverage"] == 1.0
    assert timeline["steps_unexplained"] == 0
    assert timeline["dp_end_error_mean"] <= 0.0016
    assert abs(timeline["step_error_bias"]) <= 0.004


@pytest.mark.parametrize("scored", CASES, indirect=True, ids=["-".join(case) for case in CASES])
def test_layouts_of_real_captures_are_right(scored):
    score, diagnosis = scored
    parallelism = score["parallelism"]
    assert parallelism["groups_exact"] == 1.0
    assert parallelism["stage_order"] in (None, 1.0)
    layouts = diagnosis.layouts.set_index("job")
    for job in parallelism["jobs"]:
        own = layouts.loc[job["found"]]
        assert own["dp"] == job["true"]["dp"]
        assert own["pp"] == job["true"]["pp"]
        if job["true"]["pp"] > 1:
            assert own["micro_batches"] == job["micro_batches"]["true"]
        else:
            assert own["micro_batches"] == -1  # what one rank accumulates leaves no trace

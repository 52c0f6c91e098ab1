"""Parts of real captures: recordings that begin or end within a step, and records that were lost.

Each is scored by the steps that are whole in it. A step of which the part has only the begin or
the end may be found as well, once at each rank.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, score_run

LAB = Path(__file__).parents[3] / "fixtures" / "lab"
CAPTURES = LAB.parent / "captures"
FIRST, MIDDLE, SECOND = (0.0, 0.45), (0.27, 0.71), (0.5, 1.0)
PARTS = [
    (LAB / "dp4pp4", "flows", FIRST),
    (LAB / "dp4pp4", "flows_gap10ms", FIRST),
    (LAB / "dp2pp4-slow-spine", "flows", SECOND),
    (LAB / "dp2pp4-slow-spine", "flows", MIDDLE),
    (LAB / "dp4pp2-slow-rank", "flows", FIRST),
    (LAB / "dp4pp2-slow-rank", "flows_gap1ms", MIDDLE),
    (LAB / "mpi-dp4pp2-slow-rank", "flows", MIDDLE),
    (CAPTURES / "b_dp4pp2", "flows_gap2ms", MIDDLE),
]
THINNED = [
    (LAB / "dp4pp2-slow-rank", "flows_gap1ms", 0.05),
    (LAB / "mpi-dp4pp2-slow-rank", "flows", 0.02),
    (LAB / "mpi-rabenseifner8", "flows_gap1ms", 0.02),
    (CAPTURES / "b_dp4pp2", "flows", 0.05),
    (CAPTURES / "c_two_jobs", "flows", 0.02),
]


def name(value):
    return value.name if isinstance(value, Path) else None


def scored(case, table, folder):
    """Score and diagnosis of other records than those that ``case`` has."""
    shutil.copytree(case, folder / "run", dirs_exist_ok=True)
    run = Run(folder / "run")
    pq.write_table(table, run.flows)
    diagnosis = diagnose(run.flows, run.topology, method="prism")
    diagnosis.write(run.diagnosis_folder)
    score_run(run)
    return run.read_json(run.score), diagnosis


def cut(case, flows, extent, folder):
    """The records that begin and end within a share of the time; of the truth, what is whole."""
    table = pq.read_table(case / f"{flows}.parquet")
    begin, end = pc.min(table["start_ns"]).as_py(), pc.max(table["end_ns"]).as_py()
    low, high = (int(begin + share * (end - begin)) for share in extent)

    def inside(rows):
        whole = pc.and_(
            pc.greater_equal(rows["start_ns"], low), pc.less_equal(rows["end_ns"], high)
        )
        return rows.filter(whole)

    shutil.copytree(case, folder / "run")
    for truth in ("steps", "spans"):
        path = folder / "run" / "truth" / f"{truth}.parquet"
        pq.write_table(inside(pq.read_table(path)), path)
    shutil.copytree(folder / "run", folder / "case")
    return folder / "case", inside(table)


@pytest.mark.parametrize(("case", "flows", "extent"), PARTS, ids=name)
def test_a_part_of_a_capture_has_the_layout_and_steps_of_the_whole(case, flows, extent, tmp_path):
    score, _ = scored(*cut(case, flows, extent, tmp_path), tmp_path)
    timeline = score["timeline"]
    assert score["jobs"]["accuracy"] == 1.0
    assert score["pairs"]["accuracy"] == 1.0
    assert timeline["coverage"] == 1.0
    for job in score["parallelism"]["jobs"]:
        assert (job["inferred"]["dp"], job["inferred"]["pp"]) == (
            job["true"]["dp"],
            job["true"]["pp"],
        )
        assert job["stage_order"] == 1.0
    assert timeline["steps_unexplained"] <= 2 * 16  # the first and the last step of each rank


@pytest.mark.parametrize(("case", "flows", "lost"), THINNED, ids=name)
def test_lost_records_cost_no_step_and_are_no_fault(case, flows, lost, tmp_path):
    """Whatever is found, the steps that it names are slower."""
    table = pq.read_table(case / f"{flows}.parquet")
    kept = np.random.default_rng(7).random(len(table)) >= lost
    score, diagnosis = scored(case, table.filter(kept), tmp_path)
    assert score["jobs"]["accuracy"] == 1.0
    assert score["pairs"]["accuracy"] == 1.0
    assert score["timeline"]["coverage"] == 1.0
    assert score["timeline"]["steps_unexplained"] == 0
    ends = diagnosis.steps.groupby(["job", "step"])["end_ns"].max().groupby("job").diff()
    for finding in diagnosis.findings.itertuples():
        took = ends[finding.job]
        slow = took[finding.first_step : finding.last_step + 1]
        assert finding.cause != "hang"
        assert slow.mean() > 1.1 * took.median()

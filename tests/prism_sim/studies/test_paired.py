"""Paired differences, and repairs by findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from llmprism.io.tables import DIAGNOSIS
from prism_common.errors import UserError
from prism_sim.render.comparison import as_html, as_markdown, blocks
from prism_sim.studies import whatif, whatif_figure
from prism_sim.studies.costs import compare
from prism_sim.studies.paired import compared
from prism_sim.studies.repairs import checked, plan_repairs, repairs_of, scenario_of
from prism_sim.toolkit import Run, Scenario, simulate
from tiny import TINY_MODEL


def results(values: dict[str, list[float | None]], figure: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "group": "g", "world": f"w{n}", "seed": n, "method": method, "reason": None,
                "error": None, "seconds": 1.0, "peak_memory_bytes": 2**20, figure: value,
            }
            for method, column in values.items()
            for n, value in enumerate(column)
        ]
    )  # fmt: skip


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    draws = np.random.default_rng(3)
    hard = draws.normal(0.5, 0.2, 12)  # worlds differ more than methods
    better = hard + draws.normal(0.1, 0.02, 12)
    table = results({"a": hard.tolist(), "b": better.tolist()}, "faults.recall")
    found = compared(table, "a", ["faults.recall"])["differences"]["b"]["faults.recall"]
    expected = stats.ttest_rel(better, hard).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["verdict"] == "better"
    assert found["worlds"] == 12


@pytest.mark.parametrize(
    ("figure", "verdict"), [("faults.recall", "better"), ("timeline.step_error_all_mean", "worse")]
)
def test_a_verdict_knows_which_direction_is_better(figure: str, verdict: str) -> None:
    table = results({"a": [0.1, 0.2, 0.3], "b": [0.31, 0.4, 0.5]}, figure)
    assert compared(table, "a", [figure])["differences"]["b"][figure]["verdict"] == verdict


def test_a_world_without_a_value_is_left_out_and_one_world_has_no_interval() -> None:
    table = results({"a": [0.1, None, None], "b": [0.3, 0.9, None]}, "faults.recall")
    found = compared(table, "a", ["faults.recall"])["differences"]["b"]["faults.recall"]
    assert found["mean"] == pytest.approx(0.2)
    assert (found["worlds"], found["low"], found["verdict"]) == (1, None, "unclear")


def test_pages_have_every_method_and_no_markup_of_names() -> None:
    table = results({"a": [0.1, 0.2], "<b>": [0.3, 0.4]}, "faults.recall")
    groups = {"g": compared(table, "a", ["faults.recall"])}
    assert "| figure | a | <b> |" in as_markdown("title", groups)
    page = as_html("title", groups)
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_the_interval_of_a_share_ends_at_values_that_a_share_can_have() -> None:
    table = results({"a": [0.9, 1.0, 1.0], "b": [0.1, 0.0, 0.0]}, "faults.recall")
    found = compared(table, "a", ["faults.recall"])
    ends = [found["methods"][name]["figures"]["faults.recall"] for name in "ab"]
    assert (ends[0]["high"], ends[1]["low"]) == (1, 0)
    assert found["differences"]["b"]["faults.recall"]["low"] < -1 + 0.1
    assert "0.967 (" in as_markdown("title", {"g": found})


def test_a_wide_table_is_divided_into_narrow_ones() -> None:
    methods = {name: [0.1, 0.2] for name in "abcde"}
    (block, *_) = blocks({"g": compared(results(methods, "faults.recall"), "a", ["faults.recall"])})
    parts = block.narrowed(2)
    assert [part.head for part in parts] == [
        ["figure", "a", "b"],
        ["figure", "c", "d"],
        ["figure", "e"],
    ]
    assert [row[0] for row in parts[2].rows] == [row[0] for row in block.rows]


SLOW_GPU = {"kind": "slow_gpu", "job": "a", "rank": 8, "factor": 0.5, "from_step": 1, "to_step": 3}
SLOW_NIC = {"kind": "slow_nic", "server": "s0001", "nic": 2, "factor": 0.5, "from_s": 0.0}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of one job on two servers with two faults in the second; without a diagnosis."""
    job = {"name": "a", "model": TINY_MODEL, "dp": 16, "micro_batches": 4, "steps": 5}
    content = {
        "name": "t",
        "cluster": {"servers": 2},
        "jobs": [job],
        "faults": [SLOW_GPU, SLOW_NIC],
    }
    run = Run(tmp_path / "run")
    simulate(Scenario.model_validate(content), run)
    return run


def diagnose(run: Run, *findings: dict[str, Any]) -> None:
    """Write a diagnosis with the true job and steps, and these findings."""
    ranks, steps = run.truth("ranks"), run.truth("steps")
    addresses = dict(zip(ranks["rank"], ranks["address"], strict=True))
    tables = {name: schema.empty_table().to_pandas() for name, schema in DIAGNOSIS.items()}
    tables["jobs"] = ranks.assign(job="job-0")[["job", "address"]]
    tables["steps"] = steps.assign(
        job="job-0", address=steps["rank"].map(addresses), dp_end_ns=steps["end_ns"], confidence=1.0
    )[DIAGNOSIS["steps"].names]
    rows = [
        {"finding": n, "level": "rank", "symptom": "slow", "cause": "slow_gpu", "job": "job-0",
         "culprit_kind": "address", "first_step": 1, "last_step": 2, "start_ns": 0, "end_ns": 1,
         "magnitude": 0.5, "confidence": 0.9, "evidence": json.dumps({})} | finding
        for n, finding in enumerate(findings)
    ]  # fmt: skip
    tables["findings"] = pd.DataFrame(rows, columns=DIAGNOSIS["findings"].names)
    for name, table in tables.items():
        run.write_diagnosis(name, table)


def answered(run: Run, out: Path) -> list[dict[str, Any]]:
    scenario = scenario_of(run)
    repairs = repairs_of(run, scenario)
    plan = plan_repairs(scenario, repairs)
    whatif.run_plan(plan, out, processes=1)
    found = compare(plan, out)
    found["repairs"] = checked(repairs, found["costs"])
    Run(out).write_json(out / whatif.RESULT, found)
    rows: list[dict[str, Any]] = found["repairs"]
    return rows


def test_a_prediction_stands_beside_the_answer_of_the_rerun(run: Run, tmp_path: Path) -> None:
    steps = run.truth("steps")
    whole_s = (steps["end_ns"].max() - steps["start_ns"].min()) / 1e9
    diagnose(run, {"culprit": "10.0.1.1", "cost": 0.1 * whole_s * 1e9})
    (row,) = answered(run, tmp_path / "out")
    assert (row["job"], row["faults"], row["findings"]) == ("a", [0], [0])
    assert row["predicted_share"] == pytest.approx(0.1)
    without = Run(tmp_path / "out" / "repaired-0").truth("steps")
    healthy_s = (without["end_ns"].max() - without["start_ns"].min()) / 1e9
    assert row["rerun_s"] == pytest.approx(whole_s - healthy_s)
    assert row["rerun_share"] == pytest.approx(1 - healthy_s / whole_s)
    assert row["gpu_hours"] == pytest.approx(16 * row["rerun_s"] / 3600)


def test_repairing_a_server_repairs_all_of_its_parts(run: Run, tmp_path: Path) -> None:
    diagnose(run, {"culprit_kind": "server", "culprit": "s0001", "cost": 1e6})
    (row,) = answered(run, tmp_path / "out")
    assert row["faults"] == [0, 1]


def test_a_healthy_part_gives_nothing_back_and_needs_no_rerun(run: Run, tmp_path: Path) -> None:
    diagnose(run, {"culprit": "10.0.0.4", "cost": 1e6}, {"culprit": "10.0.1.3", "cost": 5e6})
    rows = answered(run, tmp_path / "out")
    assert [row["culprit"] for row in rows] == ["10.0.1.3", "10.0.0.4"]  # the larger gain first
    assert (rows[1]["faults"], rows[1]["rerun_s"]) == ([], 0)
    assert [path.name for path in (tmp_path / "out").glob("repaired-*")] == ["repaired-1"]
    panel = whatif_figure.draw(Run(tmp_path / "out")).axes[0]
    assert [label.get_text().split()[0] for label in panel.get_yticklabels()] == [
        "10.0.1.3", "10.0.0.4",
    ]  # fmt: skip


def test_findings_about_the_same_steps_count_once(run: Run) -> None:
    part = {"culprit": "10.0.1.1"}
    twice = [part | {"cost": 2e6}, part | {"cost": 3e6, "last_step": 3}]
    diagnose(run, *twice, part | {"cost": 1e6, "first_step": 4, "last_step": 4})
    (repair,) = repairs_of(run, scenario_of(run))
    assert repair.predicted["a"][0] == pytest.approx(4e-3)


def test_a_diagnosis_without_findings_is_refused(run: Run) -> None:
    diagnose(run)
    with pytest.raises(UserError, match="nothing to repair"):
        repairs_of(run, scenario_of(run))


def test_a_run_that_was_not_simulated_is_refused(tmp_path: Path) -> None:
    Run(tmp_path).write_json(Run(tmp_path).manifest, {"name": "capture"})
    with pytest.raises(UserError, match="was not simulated"):
        scenario_of(Run(tmp_path))

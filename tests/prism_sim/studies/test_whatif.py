"""The cost of a fault, compared with closed forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from prism_common.errors import UserError
from prism_sim.studies import whatif, whatif_figure
from prism_sim.studies.costs import compare
from prism_sim.studies.progress import progress_of
from prism_sim.studies.whatif import plan_change, plan_faults, run_plan
from prism_sim.toolkit import Run, Scenario
from tiny import TINY_MODEL

SLOW = {"kind": "slow_gpu", "job": "a", "rank": 0, "factor": 0.5, "from_step": 1, "to_step": 3}


def scenario(*faults: dict[str, Any], **fields: Any) -> Scenario:
    """One job alone on one GPU, so that its step is its computation."""
    job = {"name": "a", "model": TINY_MODEL, "micro_batches": 4, "steps": 5, **fields}
    content = {"name": "t", "cluster": {"servers": 4}, "jobs": [job], "faults": faults}
    return Scenario.model_validate(content)


def costs(plan: whatif.Plan, folder: Path) -> list[dict[str, Any]]:
    run_plan(plan, folder, processes=1)
    found: list[dict[str, Any]] = compare(plan, folder)["costs"]
    return found


def _ends_s(run: Run) -> pd.Series:
    return progress_of(run)["a"].ends_s


def test_a_gpu_at_half_speed_takes_twice_as_long(tmp_path: Path) -> None:
    (cost,) = costs(plan_faults(scenario(SLOW)), tmp_path)
    (job,) = cost["jobs"]
    run = Run(tmp_path / "without-0-slow_gpu")
    spans = run.truth("spans")
    passes = spans[spans["kind"].isin(["fwd", "bwd"])]
    length = (passes["end_ns"] - passes["start_ns"]).groupby(passes["step"]).sum() / 1e9
    assert job["extra_s"] == pytest.approx(length.loc[1:2].sum(), rel=1e-6)
    assert job["gpu_hours"] == cost["gpu_hours"] == pytest.approx(job["extra_s"] / 3600)
    assert job["slower"] == pytest.approx(length.loc[1:2].sum() / (5 * job["step_s_without"]))


def test_jitter_is_the_same_with_and_without(tmp_path: Path) -> None:
    noisy = scenario(SLOW, compute_jitter=0.3, dp=8)
    plan = plan_faults(noisy)
    run_plan(plan, tmp_path, processes=1)
    slow, fast = (_ends_s(Run(tmp_path / variant.folder)) for variant in plan.variants)
    times = [ends.diff().round(9) for ends in (slow, fast)]
    assert (times[0] == times[1])[3:].all()  # steps after the fault: to the nanosecond
    assert slow[0] == fast[0]
    assert times[0][1] > times[1][1]


def test_two_faults_are_compared_one_by_one_and_together(tmp_path: Path) -> None:
    late = SLOW | {"from_step": 3, "to_step": 4}
    first, second, both = costs(plan_faults(scenario(SLOW, late)), tmp_path)
    assert first["gpu_hours"] == pytest.approx(2 * second["gpu_hours"], rel=1e-3)
    assert both["gpu_hours"] == pytest.approx(first["gpu_hours"] + second["gpu_hours"], rel=1e-6)
    assert [cost["name"] for cost in (first, second, both)] == [
        "0: slow_gpu, job a, rank 0, at 0.5, steps 1 to 2",
        "1: slow_gpu, job a, rank 0, at 0.5, step 3",
        "all faults",
    ]


def test_faults_that_hide_each_other_cost_little_alone(tmp_path: Path) -> None:
    other = SLOW | {"rank": 1}
    first, second, both = costs(plan_faults(scenario(SLOW, other, dp=8)), tmp_path)
    assert first["gpu_hours"] == pytest.approx(0, abs=1e-9)
    assert second["gpu_hours"] == pytest.approx(0, abs=1e-9)
    assert both["gpu_hours"] > 0


def test_a_change_is_compared_with_the_unchanged_scenario(tmp_path: Path) -> None:
    plan = plan_change(scenario(), scenario(micro_batches=8), ["jobs.0.micro_batches=8"])
    (cost,) = costs(plan, tmp_path)
    run_step = cost["jobs"][0]
    assert cost["name"] == "jobs.0.micro_batches=8"
    assert 1.8 < run_step["step_s_with"] / run_step["step_s_without"] < 2.0
    (tmp_path / whatif.RESULT).write_text(json.dumps({"costs": [cost]}))
    with pytest.raises(UserError, match="answer to another question"):
        costs(plan_faults(scenario(SLOW)), tmp_path)


def test_gpus_that_a_change_adds_are_paid_for(tmp_path: Path) -> None:
    plan = plan_change(scenario(), scenario(dp=2), ["jobs.0.dp=2"])
    (cost,) = costs(plan, tmp_path)
    (job,) = cost["jobs"]
    hours = 5 * (2 * job["step_s_with"] - job["step_s_without"]) / 3600
    assert cost["gpu_hours"] == pytest.approx(hours)


def test_only_steps_that_every_rank_completed_count(tmp_path: Path) -> None:
    run = Run(tmp_path)
    rows = [("a", 0, 0, 10, 20), ("a", 1, 0, 5, 25), ("a", 0, 1, 30, 40)]
    run.write_truth(
        "steps", pd.DataFrame(rows, columns=["job", "rank", "step", "start_ns", "end_ns"])
    )
    assert _ends_s(run).to_dict() == {0: pytest.approx(20e-9)}


def test_the_figure_has_a_bar_for_each_cost_and_a_panel_for_each_job_hit(tmp_path: Path) -> None:
    plan = plan_faults(scenario(SLOW, SLOW | {"from_step": 3, "to_step": 4}))
    run_plan(plan, tmp_path, processes=1)
    Run(tmp_path).write_json(tmp_path / whatif.RESULT, compare(plan, tmp_path))
    bars, panel = whatif_figure.draw(Run(tmp_path)).axes
    assert [label.get_text().partition(":")[0] for label in bars.get_yticklabels()] == [
        "0", "1", "all faults",
    ]  # fmt: skip
    assert [len(line.get_xdata()) for line in panel.get_lines()] == [5, 5]


def test_an_iteration_that_is_repeated_counts_once(tmp_path: Path) -> None:
    """Two ranks; a restart after step 2 repeats iterations 1 and 2 as steps 3 and 4."""
    run = Run(tmp_path)
    times = {0: (0, 10), 1: (10, 20), 2: (20, 30), 3: (50, 60), 4: (60, 70), 5: (70, 80)}
    rows = [("a", rank, step, *(t * 10**9 for t in times[step]))
            for step in times for rank in (0, 1)]  # fmt: skip
    rows.append(("a", 0, 6, 80 * 10**9, 90 * 10**9))  # the other rank did not complete it
    columns = ["job", "rank", "step", "start_ns", "end_ns"]
    run.write_truth("steps", pd.DataFrame(rows, columns=columns))
    attempts = [{"first_step": 0, "lost_steps": 0}, {"first_step": 3, "lost_steps": 2}]
    run.write_json(run.manifest, {"attempts": {"a": attempts}})
    done = progress_of(run)["a"]
    assert done.ends_s.to_dict() == {0: 10, 1: 60, 2: 70, 3: 80}
    assert done.effective_training_time_ratio(4) == pytest.approx(40 / 80)
    assert done.effective_training_time_ratio(1) == 1
    run.write_json(run.manifest, {})  # of an older version
    assert progress_of(run)["a"].ends_s.to_dict() == {n: times[n][1] for n in times}


def test_a_crash_costs_the_lost_steps_and_the_time_without_an_attempt(tmp_path: Path) -> None:
    crash = {"kind": "crash", "job": "a", "rank": 0, "from_step": 3, "down_s": 2.0}
    written = scenario(crash | {"noticed_after_s": 0.5})
    (cost,) = costs(plan_faults(written), tmp_path)
    (job,) = cost["jobs"]
    assert (job["steps"], job["steps_with"], job["steps_without"]) == (5, 5, 5)
    lost_s = job["step_s_without"]  # the step of the crash, at most
    assert 2.5 <= job["extra_s"] <= 2.5 + lost_s + 1e-6
    assert job["effective_ratio_without"] == pytest.approx(1, abs=1e-6)
    expected = job["step_s_without"] / job["step_s_with"]
    assert job["effective_ratio_with"] == pytest.approx(expected, rel=0.02)


def test_a_slow_step_that_counts_lowers_no_ratio(tmp_path: Path) -> None:
    (cost,) = costs(plan_faults(scenario(SLOW)), tmp_path)
    (job,) = cost["jobs"]
    assert job["effective_ratio_with"] == pytest.approx(job["effective_ratio_without"], abs=1e-6)


@pytest.mark.parametrize(
    ("slower", "ratios", "is_shown"),
    [(2.0, (0.99, 0.96), False), (2.0, (0.80, 0.96), True), (-0.5, (0.99, 0.96), True)],
    ids=["longer steps are no gain", "a loss beside them is shown", "a gain is shown"],
)
def test_the_figure_tells_an_effective_time_that_goes_with_the_cost(
    tmp_path: Path, slower: float, ratios: tuple[float, float], is_shown: bool
) -> None:
    job = {
        "job": "a", "slower": slower, "extra_s": 0.0, "gpu_hours": slower,
        "effective_ratio_with": ratios[0], "effective_ratio_without": ratios[1],
    }  # fmt: skip
    cost = {"name": "0", "with": "w", "without": "o", "gpu_hours": slower, "jobs": [job]}
    content = {"scenario": "s", "seed": 0, "costs": [cost], "step_ends_s": {}}
    Run(tmp_path).write_json(tmp_path / whatif.RESULT, content)
    (bars,) = whatif_figure.draw(Run(tmp_path)).axes
    assert any("effective time" in text.get_text() for text in bars.texts) == is_shown

"""Faults that come and go: one finding, which has all of their steps and all of their costs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, load_tables, score_faults, simulate

MODEL = {"layers": 4, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}
REPLICAS = {"dp": 8, "micro_batches": 2}
PIPELINE = {"dp": 4, "pp": 2, "micro_batches": 12, "schedule": "1f1b"}
STEPS = 30


def found_in(folder, faults, gpus=1, **job):
    world = {
        "name": "recurring",
        "seed": 31,
        "cluster": {
            "servers": 8 // gpus,
            "gpus_per_server": gpus,
            "nics_per_server": gpus,
            "fabric": {"kind": "tor", "leaf_ports": 8, "spines": 2},
        },
        "jobs": [
            {
                "name": "train", "model": MODEL, "steps": STEPS, "mfu": 0.4,
                "compute_jitter": 0.01, "step_overhead_ms": 4, **job,
            }
        ],
        "faults": [{"job": "train", **fault} for fault in faults],
        "measure_faults": True,
    }  # fmt: skip
    run = Run(folder)
    simulate(Scenario.model_validate(world), run)
    diagnose(run.flows, run.topology, method="prism").write(run.diagnosis_folder)
    return load_tables(run)


def cost_error(case):
    """Of the only finding, as a share of the time of the steps that it concerns."""
    assert len(case.diagnosis["findings"]) == 1
    faults, finding = case.truth["faults"], case.diagnosis["findings"].iloc[0]
    took = (faults["extra_ns"] / faults["slowdown"]).sum()
    return abs(finding["cost"] - faults["extra_ns"].sum()) / took


@pytest.mark.parametrize("job", [REPLICAS, PIPELINE], ids=["replicas", "pipeline"])
def test_a_rank_that_is_slow_twice_is_one_finding_with_the_cost_of_both(tmp_path, job):
    """The second time, half of the steps around are slow ones of the first time."""
    slow = {"kind": "slow_gpu", "rank": 3, "factor": 0.6}
    windows = [{"from_step": 6, "to_step": 18}, {"from_step": 21, "to_step": 26}]
    case = found_in(tmp_path, [slow | window for window in windows], **job)
    assert cost_error(case) < 0.01
    finding = case.diagnosis["findings"].iloc[0]
    assert (finding["first_step"], finding["last_step"]) == (6, 25)
    assert finding["culprit"] == "10.0.3.1"


@pytest.mark.parametrize("steps", [12, 30])
@pytest.mark.parametrize("gpus", [1, 2])
def test_a_rank_that_is_slow_in_every_other_step_is_named(tmp_path, gpus, steps):
    """Half of the steps are slow, so each step differs from the one before and from the median."""
    slow = {"kind": "slow_gpu", "rank": 3, "factor": 0.6}
    windows = [{"from_step": step, "to_step": step + 1} for step in range(1, steps - 1, 2)]
    windows.append({"from_step": steps - 1})
    job = {"dp": 4, "pp": 2, "micro_batches": 8, "model": MODEL | {"layers": 8}}
    case = found_in(tmp_path, [slow | one for one in windows], gpus, **job, steps=steps)
    assert len(case.diagnosis["steps"]) == steps * 8
    assert set(case.diagnosis["findings"]["culprit"]) == {f"10.0.{3 // gpus}.{3 % gpus + 1}"}


@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.parametrize("job", [REPLICAS, PIPELINE], ids=["replicas", "pipeline"])
def test_pauses_at_a_steady_pace_are_no_checkpoints(tmp_path, job, every):
    fault = {
        "kind": "loader_stalls", "rank": 2, "stall_ms": 10, "every": every, "from_step": 6,
    }  # fmt: skip
    case = found_in(tmp_path, [fault], **job)
    assert [one.localized for one in score_faults(case).matches] == [True]
    evidence = json.loads(case.diagnosis["findings"].iloc[0]["evidence"])
    assert evidence["steps"] == [*range(6, STEPS, every)]
    assert cost_error(case) < 0.01


def test_a_first_stage_that_is_slow_now_and_then_is_not_taken_for_the_stage_after_it(tmp_path):
    """The last stage gets its inputs later, so its receiver sent longer ago than in other steps."""
    fault = {
        "kind": "intermittent_gpu", "rank": 1, "factor": 0.5, "every_s": 0.13, "lasts_s": 0.04,
        "from_step": 6, "to_step": 24,
    }  # fmt: skip
    case = found_in(tmp_path, [fault], **PIPELINE)
    assert [one.localized for one in score_faults(case).matches] == [True]
    findings = case.diagnosis["findings"]
    named = [json.loads(text).get("one_of", [])[:1] for text in findings["evidence"]]
    assert set(findings["culprit"]) == {"10.0.1.1"}
    assert all(own in ([], ["10.0.1.1"]) for own in named)


def test_healthy_ranks_pause_in_no_more_steps_than_others(tmp_path):
    noise = {"compute_jitter": 0.03, "step_overhead_jitter": 0.3, "tail_probability": 0.003}
    assert not len(found_in(tmp_path, [], **REPLICAS, **noise).diagnosis["findings"])


def test_steps_are_numbered_as_the_job_numbers_them(tmp_path):
    """What the tests above take for granted."""
    case = found_in(tmp_path, [], **REPLICAS)
    assert np.unique(case.diagnosis["steps"]["step"]).tolist() == [*range(STEPS)]

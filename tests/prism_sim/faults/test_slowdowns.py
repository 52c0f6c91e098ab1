"""The truth says how much a fault really slows its job, against the same run without it."""

from __future__ import annotations

import pandas as pd
import pytest

from faulty import CLUSTER, JOB
from prism_sim.toolkit import Run, Scenario, simulate
from tiny import TINY_MODEL

FAULTS = [
    {"kind": "slow_gpu", "job": "a", "rank": 9, "factor": 0.5, "from_step": 1, "to_step": 3},
    {"kind": "slow_nic", "server": "s0000", "nic": 0, "factor": 1e-4, "job": "a", "from_step": 5},
    {"kind": "slow_gpu", "job": "a", "rank": 9, "factor": 0.999, "from_s": 1e6},
]


def simulated(folder, faults, **more):
    job = {"name": "a", "model": TINY_MODEL, **JOB, "compute_jitter": 0.05}
    content = {"cluster": CLUSTER, "jobs": [job], "faults": faults, **more}
    run = Run(folder)
    simulate(Scenario.model_validate(content), run)
    return run


def ends_of(run):
    return run.truth("steps").groupby("step")["end_ns"].max()


def test_a_slowdown_is_the_difference_to_the_run_without_that_fault(tmp_path):
    run = simulated(tmp_path / "both", FAULTS, measure_faults=True)
    truth = run.truth("faults")
    assert truth["kind"].tolist() == ["slow_gpu", "slow_nic"], "the third never began"
    assert truth["slowed_job"].tolist() == ["a", "a"]
    for number, (first, stop) in enumerate([(1, 3), (5, 8)]):
        rest = [fault for place, fault in enumerate(FAULTS) if place != number]
        without = ends_of(simulated(tmp_path / f"without {number}", rest))
        own = ends_of(run)
        took = [ends.diff()[first:stop].sum() for ends in (own, without)]
        assert truth["slowdown"][number] == pytest.approx(took[0] / took[1] - 1, rel=0.02)
        assert truth["slowdown"][number] > 0.03
        assert truth["extra_ns"][number] == own.max() - without.max()


def test_without_the_request_nothing_is_measured_and_nothing_else_changes(tmp_path):
    runs = [
        simulated(tmp_path / str(measured), FAULTS, measure_faults=measured)
        for measured in (False, True)
    ]
    plain, full = (run.truth("faults") for run in runs)
    measured = ["slowed_job", "slowdown", "extra_ns"]
    assert plain[measured].isna().all(axis=None)
    columns = [name for name in plain if name not in measured]
    pd.testing.assert_frame_equal(plain[columns], full[columns])
    assert runs[0].flows.read_bytes() == runs[1].flows.read_bytes()


def test_a_job_that_a_fault_ends_has_no_later_end(tmp_path):
    hang = {"kind": "hang", "job": "a", "rank": 3, "from_step": 4, "noticed_after_s": 20}
    truth = simulated(tmp_path, [hang], measure_faults=True).truth("faults")
    assert truth["extra_ns"].isna().all()


def test_the_job_that_a_fault_slows_most_is_named(tmp_path):
    """Both jobs cross the slow switch; the second one computes for longer between its transfers."""
    jobs = [
        {"name": name, "model": TINY_MODEL, **JOB, "dp": 2, "mfu": mfu, "placement": servers}
        for name, mfu, servers in (
            ("slow", 1e-5, {"servers": ["s0001", "s0005"]}),
            ("fast", 1e-3, {"servers": ["s0000", "s0004"]}),
        )
    ]
    fault = {"kind": "slow_switch", "switch": "leaf000", "factor": 1e-3, "from_s": 0}
    content = {"cluster": CLUSTER, "jobs": jobs, "faults": [fault], "measure_faults": True}
    run = Run(tmp_path)
    simulate(Scenario.model_validate(content), run)
    truth = run.truth("faults").iloc[0]
    assert truth["slowed_job"] == "fast"
    assert truth["slowdown"] > 0

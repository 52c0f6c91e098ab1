"""Campaigns of drawn faults, and what a fault costs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from faulty import CLUSTER, JOB
from prism_sim.faults import KINDS
from prism_sim.loading.checks import errors
from prism_sim.studies.whatif import plan_faults
from prism_sim.toolkit import Run, Scenario, simulate
from tiny import TINY_MODEL

JOBS = [
    {"name": name, "model": TINY_MODEL, "dp": dp, "pp": 2, "micro_batches": 4, "steps": 6,
     "mfu": 0.01, **more}
    for name, dp, more in (("a", 4, {}), ("b", 2, {"moe": {"experts": 4}, "ep": 2}))
]  # fmt: skip
DAY = 86_400.0


def scenario(seed=0, servers=16, planes=1, **campaign):
    cluster = {
        "servers": servers, "gpus_per_server": 1, "nics_per_server": 1, "nic_ports": planes,
        "fabric": {"kind": "tor", "leaf_ports": 4, "uplinks": 2, "spines": 2, "planes": planes},
    }  # fmt: skip
    content = {"cluster": cluster, "jobs": JOBS, "storage": [f"s{servers - 1:04d}"], "seed": seed}
    return Scenario.model_validate({**content, "campaign": campaign})


def test_faults_are_as_many_and_as_bursty_as_the_published_trace():
    """400 servers, 348 days: 4.2 faults in 1,000 node-days, CV of their intervals 1.76."""
    drawn = [
        [fault.from_s for fault in scenario(
            seed, servers=400, until_s=348 * DAY, kinds={"slow_gpu": 1}).all_faults]
        for seed in range(12)
    ]  # fmt: skip
    count = np.mean([len(times) for times in drawn])
    assert count == pytest.approx(4.2 * 400 * 348 / 1000, rel=0.1)
    gaps = np.concatenate([np.diff(times) for times in drawn])
    assert gaps.std() / gaps.mean() == pytest.approx(1.76, rel=0.1)


@pytest.mark.slow
def test_a_few_servers_have_their_share():
    """23 of 400 servers have 28 % of all faults."""
    options = {"servers": 400, "until_s": 348 * DAY, "kinds": {"slow_server": 1}}
    shares = []
    for seed in range(6):
        faults = scenario(seed, acceleration=10, **options).all_faults
        counted = Counter(fault.server for fault in faults)
        shares.append(sum(n for _, n in counted.most_common(23)) / len(faults))
    assert np.mean(shares) == pytest.approx(0.28 + 0.72 * 0.0575, abs=0.06)


def test_every_kind_can_be_drawn_and_is_possible():
    of = scenario(planes=2, acceleration=1e7, until_s=40, kinds=dict.fromkeys(KINDS, 1.0))
    faults = of.all_faults
    assert {fault.kind for fault in faults} == set(KINDS)
    written = of.without_draws
    assert written.faults == faults
    assert [remark.what for remark in errors(written)] == []
    times = [fault.from_s for fault in faults]
    assert times == sorted(times)


def test_a_kind_that_cannot_happen_is_left_out():
    of = scenario(acceleration=1e7, until_s=40, kinds={"slow_storage": 1})
    assert of.all_faults
    assert of.model_copy(update={"storage": ()}).all_faults == ()


def test_faults_follow_from_the_seed_and_more_time_changes_no_earlier_one():
    options = {"acceleration": 1e7, "kinds": dict.fromkeys(KINDS, 1.0)}
    one, same = (scenario(3, until_s=20, **options).all_faults for _ in range(2))
    longer = scenario(3, until_s=60, **options).all_faults
    assert one == same
    assert one == longer[: len(one)]
    assert len(longer) > len(one)
    assert one != scenario(4, until_s=20, **options).all_faults


def test_a_run_has_the_drawn_faults_in_its_truth(tmp_path):
    options = {"acceleration": 3e7, "until_s": 0.5, "lasts_s": 0.1}
    of = scenario(2, **options, kinds={"slow_gpu": 1, "slow_nic": 1})
    assert len(of.all_faults) > 3
    run = Run(tmp_path / "drawn")
    simulate(of, run)
    truth = run.truth("faults")
    assert truth["kind"].tolist() == [fault.kind for fault in of.all_faults][: len(truth)]
    assert len(truth) > 0
    other = Run(tmp_path / "written")
    simulate(of.without_draws, other)
    assert run.flows.read_bytes() == other.flows.read_bytes()
    assert len(plan_faults(of).contrasts) == len(of.all_faults) + 1


@pytest.mark.parametrize(
    ("campaign", "what"),
    [
        ({"kinds": {"slow_gpo": 1}, "until_s": 1}, "did you mean slow_gpu"),
        ({"kinds": {"slow_gpu": 0}, "until_s": 1}, "all weights are 0"),
        ({"factors": [0.9, 0.5], "until_s": 1}, "no range"),
    ],
)
def test_a_campaign_that_makes_no_sense_is_refused(campaign, what):
    with pytest.raises(ValidationError, match=what):
        scenario(**campaign)


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

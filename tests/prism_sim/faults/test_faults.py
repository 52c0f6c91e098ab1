"""Every kind of fault: what it needs, when it begins, and that it ends and recurs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from faulty import assert_named, diagnosed
from prism_sim.toolkit import Scenario
from prism_sim.world import World
from prism_sim.world.truth import faults_table
from tiny import TINY_MODEL

JOB = {"name": "a", "model": TINY_MODEL, "dp": 4, "pp": 2, "micro_batches": 4, "steps": 6}
CLUSTER = {
    "servers": 8, "gpus_per_server": 1, "nics_per_server": 1,
    "fabric": {"kind": "tor", "leaf_ports": 2, "spines": 2},
}  # fmt: skip


def step_ms(run):
    """Step durations by (rank, step) [ms]."""
    steps = run.truth("steps").set_index(["rank", "step"])
    return ((steps["end_ns"] - steps["start_ns"]) / 1e6).unstack()


@pytest.fixture
def faulty(simulated):
    """Simulate the job with and without one fault; returns (healthy, faulty) runs."""

    def make(alone=False, **fault):
        fields = {key: value for key, value in JOB.items() if key not in ("name", "model")}
        if alone:  # no two messages at a time
            fields |= {"micro_batches": 1, "overlap_gradients": False}
        healthy = simulated("healthy", cluster=CLUSTER, **fields)
        return healthy, simulated("faulty", cluster=CLUSTER, faults=[fault], **fields)

    return make


def test_a_fault_without_a_window_is_there_all_the_time(faulty):
    where = {"kind": "slow_gpu", "job": "a", "rank": 5, "factor": 0.25}
    runs = [faulty(**where, **window)[1] for window in ({}, {"from_s": 0}, {"from_step": 0})]
    always, from_the_start, from_the_first_step = (step_ms(run) for run in runs)
    pd.testing.assert_frame_equal(always, from_the_start)
    pd.testing.assert_frame_equal(always, from_the_first_step)


def test_a_slow_gpu_computes_slower_in_its_window_only(faulty):
    healthy, slow_run = faulty(
        kind="slow_gpu", job="a", rank=5, factor=0.25, from_step=2, to_step=4
    )
    spans = slow_run.truth("spans")
    compute = spans[spans["kind"].isin(["fwd", "bwd"])]
    took = (compute["end_ns"] - compute["start_ns"]).groupby([compute["rank"], compute["step"]])
    by_step = took.sum().unstack()
    ratio = by_step.loc[5] / by_step.loc[4]
    np.testing.assert_allclose(ratio, [1, 1, 4, 4, 1, 1], rtol=1e-6)
    (fault,) = slow_run.truth("faults").to_dict("records")
    address = slow_run.truth("ranks").set_index("rank").loc[5, "address"]
    assert (fault["culprit"], fault["culprit_kind"], fault["rank"]) == (address, "address", 5)
    begun = slow_run.truth("steps").set_index(["rank", "step"])["start_ns"]
    assert (fault["start_ns"], fault["end_ns"]) == (begun[5, 2], begun[5, 4])
    assert (step_ms(slow_run)[0] == step_ms(healthy)[0]).all()


def test_a_slow_nic_stretches_its_own_messages_by_its_factor(faulty):
    healthy, slow_run = faulty(
        alone=True, kind="slow_nic", job="a", rank=1, factor=0.2, from_step=3, to_step=5
    )
    rank = healthy.truth("ranks").set_index("rank")["address"]

    def fastest_pp(run, src, dst):
        flows = pd.read_parquet(run.flows)
        steps = run.truth("steps")
        at = steps[(steps["rank"] == 1) & (steps["step"] == 3)].iloc[0]
        pair = flows[(flows["src"] == rank[src]) & (flows["dst"] == rank[dst])]
        within = pair[(pair["start_ns"] >= at["start_ns"]) & (pair["end_ns"] <= at["end_ns"])]
        return (within["end_ns"] - within["start_ns"]).min()  # alone on its NIC

    # Activations travel alone; gradients leave together with the first bucket, and share.
    ratio = fastest_pp(slow_run, 1, 5) / fastest_pp(healthy, 1, 5)
    assert ratio == pytest.approx(5, rel=1e-3)
    assert fastest_pp(slow_run, 0, 4) == fastest_pp(healthy, 0, 4)


@pytest.mark.parametrize(
    ("fault", "culprit"),
    [
        ({"kind": "slow_link", "a": "leaf000", "b": "spine01"}, "leaf000|spine01"),
        ({"kind": "slow_switch", "switch": "spine01"}, "spine01"),
        ({"kind": "slow_nic", "server": "s0003", "nic": 0}, "10.0.3.1"),
    ],
)
def test_capacities_fall_by_the_factor_and_come_back_exactly(tmp_path, fault, culprit):
    window = {"factor": 0.49, "from_s": 0.01, "to_s": 0.02}
    scenario = Scenario.model_validate(
        {"cluster": CLUSTER, "jobs": [JOB], "faults": [{**fault, **window}] * 2}
    )
    world = World(scenario, tmp_path / "flows.parquet", tmp_path / "spans.parquet")
    links = scenario.faults[0].links(world.faults.target)
    before = world.fabric.net.link["capacity"].copy()
    during = []
    world.env.call_at(15_000_000, lambda: during.append(world.fabric.net.link["capacity"].copy()))
    world.run(lambda _: None)
    expected = before.copy()
    expected[links] *= 0.49 * 0.49  # two faults on the same links multiply
    np.testing.assert_allclose(during[0], expected)
    np.testing.assert_array_equal(world.fabric.net.link["capacity"], before)
    frame = faults_table(world.faults, scenario.epoch_ns)
    assert frame["culprit"].tolist() == [culprit] * 2
    assert (frame["end_ns"] - frame["start_ns"]).tolist() == [10_000_000] * 2
    assert {tuple(json.loads(jobs)) for jobs in frame["jobs"]} <= {("a",), ()}


def test_a_fault_changes_no_other_draw(simulated):
    """Common random numbers: jitter is the same with and without the fault."""
    fields = {key: value for key, value in JOB.items() if key not in ("name", "model")}
    fault = {"kind": "slow_gpu", "job": "a", "rank": 5, "factor": 0.5, "from_step": 2}
    runs = [
        simulated(name, cluster=CLUSTER, compute_jitter=0.1, faults=faults, **fields)
        for name, faults in (("without", []), ("with", [fault]))
    ]
    compute = []
    for run in runs:
        spans = run.truth("spans")
        spans = spans[spans["kind"].isin(["fwd", "bwd"]) & (spans["rank"] != 5)]
        keys = ["rank", "step", "micro_batch", "kind"]
        took = spans.assign(took=spans["end_ns"] - spans["start_ns"])
        compute.append(took.sort_values(keys)["took"].to_numpy())
    # The last backward is split over buckets by whole nanoseconds; all else is equal.
    np.testing.assert_array_equal(*compute)


def test_a_fault_that_never_began_is_not_in_the_truth(simulated):
    fault = {"kind": "slow_switch", "switch": "leaf000", "factor": 0.5, "from_s": 1e6}
    assert len(simulated(faults=[fault], tp=8, dp=2).truth("faults")) == 0


UPLINKS = {
    "servers": 8, "gpus_per_server": 1, "nics_per_server": 1, "nic_gbps": 400,
    "fabric": {"kind": "tor", "leaf_ports": 4, "uplinks": 4, "uplink_gbps": 400, "spines": 2},
}  # fmt: skip


def activations(run):
    """Records of the first stage's activations in order of start, with their step's number."""
    flows = pd.read_parquet(run.flows)
    stage = run.truth("ranks").set_index("address")["pp"]
    steps = run.truth("steps").query("rank == 0").sort_values("start_ns")
    sent = flows[(flows["src"].map(stage) == 0) & (flows["dst"].map(stage) == 1)]
    step = np.searchsorted(steps["start_ns"], sent["start_ns"], "right") - 1
    return sent.assign(step=step, gbps=8 * sent["bytes"] / (sent["end_ns"] - sent["start_ns"]))


def test_connections_share_the_remaining_uplinks_of_a_leaf(simulated):
    """Four activations leave the leaf at once. With one uplink left each has a quarter of it."""
    fields = {"dp": 4, "pp": 2, "micro_batches": 1, "steps": 6}
    fault = {"kind": "failed_uplinks", "leaf": "leaf000", "failed": 3, "job": "a",
             "from_step": 2, "to_step": 4}  # fmt: skip
    healthy = activations(simulated("healthy", cluster=UPLINKS, **fields))
    run = simulated("faulty", cluster=UPLINKS, faults=[fault], **fields)
    slow_run = activations(run)
    during = slow_run["step"].isin([2, 3])
    np.testing.assert_allclose(slow_run.loc[during, "gbps"], 100, rtol=1e-3)
    assert set(slow_run.loc[during, "path"]) == {"leaf000|spine01|leaf001"}  # uplink 3 of 2 spines
    usual = healthy.groupby(["src", "dst"], observed=True)["path"].unique().explode()
    later = slow_run[slow_run["step"] >= 4].groupby(["src", "dst"], observed=True)["path"].unique()
    assert later.explode().to_dict() == usual.to_dict()
    (row,) = run.truth("faults").to_dict("records")
    assert (row["culprit_kind"], row["culprit"], json.loads(row["jobs"])) == (
        "switch", "leaf000", ["a"])  # fmt: skip


def test_traffic_to_a_leaf_avoids_spines_that_no_longer_reach_it(simulated):
    """Leaf 1 keeps its last uplink, to spine 1, so the traffic of leaf 0 has to use spine 1."""
    fault = {"kind": "failed_uplinks", "leaf": "leaf001", "failed": 3, "from_s": 0.0}
    fields = {"dp": 4, "pp": 2, "micro_batches": 1, "steps": 2}
    sent = activations(simulated("down", cluster=UPLINKS, faults=[fault], **fields))
    assert set(sent["path"]) == {"leaf000|spine01|leaf001"}
    np.testing.assert_allclose(sent["gbps"], 100, rtol=1e-3)  # four into one cable down


def test_rings_are_hashed_again_too(simulated):
    """Replicas on alternate leaves: four hops in each direction share one uplink."""
    names = [
        f"s{server:04d}" for pair in zip(range(4), range(4, 8), strict=True) for server in pair
    ]
    fields = {"dp": 8, "pp": 1, "micro_batches": 1, "steps": 4, "placement": {"servers": names},
              "overlap_gradients": False}  # fmt: skip
    fault = {"kind": "failed_uplinks", "leaf": "leaf000", "failed": 3, "job": "a", "from_step": 2}
    run = simulated("ring", cluster=UPLINKS, faults=[fault], **fields)
    flows = pd.read_parquet(run.flows).sort_values("start_ns")
    last = flows[flows["start_ns"] > run.truth("faults")["start_ns"].iloc[0]]
    rate = 8 * last["bytes"] / (last["end_ns"] - last["start_ns"])
    np.testing.assert_allclose(rate, 100, rtol=0.01)


def test_a_fault_without_effect_gives_a_warning(simulated):
    """After the run: the fault never began, or no connection of a job uses the slow part."""
    faults = [
        {"kind": "slow_switch", "switch": "leaf000", "factor": 0.5, "from_s": 1e6},
        {"kind": "slow_link", "a": "10.0.7.1", "b": "leaf003", "factor": 0.5, "from_s": 0},
        {"kind": "slow_nic", "server": "s0000", "nic": 0, "factor": 0.5, "from_s": 0},
    ]
    run = simulated("idle", cluster=CLUSTER, faults=faults, dp=2, pp=2, steps=2)
    never, unused = run.read_json(run.manifest)["warnings"]
    assert never.startswith("faults.0: the fault slow_switch never began: it waited for 1e+06 s")
    assert "no job" in unused
    assert "10.0.7.1|leaf003" in unused


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "slow_switch", "switch": "core00"},
        {"kind": "slow_link", "a": "core00", "b": "spine01"},
    ],
)
def test_a_slow_core_slows_only_traffic_between_pods(simulated, fault):
    """Four stages on four leaves in two pods: only the message from stage 1 to 2 crosses."""
    cluster = {
        "servers": 4, "gpus_per_server": 1, "nics_per_server": 1,
        "fabric": {"kind": "tor", "leaf_ports": 1, "spines": 1, "pod_leaves": 2, "cores": 1},
    }  # fmt: skip
    fields = {"dp": 1, "pp": 4, "micro_batches": 1, "steps": 2}
    slow = {**fault, "factor": 0.2, "from_s": 0}
    took = []
    for name, faults in (("healthy", []), ("slow_run", [slow])):
        run = simulated(name, cluster=cluster, faults=faults, **fields)
        flows = pd.read_parquet(run.flows)
        stage = run.truth("ranks").set_index("address")["pp"]
        ends = [flows["src"].map(stage).astype(int), flows["dst"].map(stage).astype(int)]
        took.append((flows["end_ns"] - flows["start_ns"]).groupby(ends).min())
    ratio = took[1] / took[0]
    for (src, dst), slower in ratio.items():
        assert slower == pytest.approx(5 if {src, dst} == {1, 2} else 1, rel=0.01)
    assert len(ratio) == 6
    (row,) = run.truth("faults").to_dict("records")
    assert (row["magnitude"], json.loads(row["jobs"])) == (pytest.approx(0.8), ["a"])


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
    return diagnosed(folder, world)


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
    assert_named(case, alone=False, with_cause=False)
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
    assert_named(case, alone=False, with_cause=False)
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

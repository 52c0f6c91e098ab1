"""Several jobs, no job, and traffic of no job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_sim.cluster.placement import Placement
from prism_sim.toolkit import Cluster, Draws, Job, Run, Scenario, load_scenario, simulate
from tiny import TINY_MODEL

FOLDER = Path(__file__).parents[3] / "scenarios" / "workloads"
CLUSTER = Cluster(servers=16)


def placed(strategy, seed=0):
    job = Job(name="a", model=TINY_MODEL, dp=16, tp=2, micro_batches=1, steps=1,
              placement=strategy)  # fmt: skip
    return Placement(CLUSTER, Draws(seed)).place(job)[0]


def test_each_strategy_leaves_its_mark():
    servers = {name: placed(name)[:, 0] // 8 for name in ("packed", "spread", "random")}
    assert servers["packed"].tolist() == sorted([0, 1, 2, 3] * 4)
    assert servers["spread"].tolist() == list(range(16))
    assert servers["random"].tolist() != sorted(servers["random"])
    fragmented = placed("fragmented")[:, 0]
    beside = np.diff(fragmented) == 2
    assert 0 < beside.sum() < len(beside)
    assert sorted(placed("fragmented", 1)[:, 0]) != sorted(fragmented)


@pytest.mark.parametrize("strategy", ["packed", "spread", "random", "fragmented"])
def test_every_gpu_has_one_rank_and_groups_stay_whole(strategy):
    gpus = placed(strategy)
    assert len(np.unique(gpus)) == gpus.size
    assert (gpus[:, 1] == gpus[:, 0] + 1).all()
    assert (gpus[:, 0] % 2 == 0).all()


def simulated_file(name, tmp_path):
    run = Run(tmp_path)
    scenario = load_scenario(FOLDER / f"{name}.yaml")
    simulate(scenario, run)
    return scenario, run


def test_two_jobs_with_the_same_servers_share_all_of_them(tmp_path):
    _, run = simulated_file("same-servers", tmp_path)
    servers = run.truth("ranks").groupby("job")["server"].apply(frozenset)
    assert servers.nunique() == 1
    pairs = run.truth("pairs")
    ends = pairs.groupby("job").apply(lambda p: {*p["src"], *p["dst"]}, include_groups=False)
    assert ends.iloc[0].isdisjoint(ends.iloc[1])


def test_two_jobs_meet_on_one_server_and_are_apart_otherwise(tmp_path):
    """Three servers and a half of the one, the other half and one more of the other."""
    _, run = simulated_file("shared-server", tmp_path)
    ranks, pairs = run.truth("ranks"), run.truth("pairs")
    held = ranks.groupby(["job", "server"]).size().unstack("job", fill_value=0)
    assert sorted(held["large"], reverse=True) == [8, 8, 8, 4, 0]
    assert held["small"].sort_values().tolist() == [0, 0, 0, 4, 8]
    both = held[(held > 0).all(axis=1)]
    assert both.to_numpy().tolist() == [[4, 4]]
    assert not ranks.duplicated(["server", "gpu"]).any()
    ends = pairs.groupby("job").apply(lambda p: {*p["src"], *p["dst"]}, include_groups=False)
    assert ends["large"].isdisjoint(ends["small"])
    server = ranks.set_index("address")["server"]
    spoken = {job: set(server[sorted(own)]) for job, own in ends.items()}
    assert spoken["large"] & spoken["small"] == set(both.index)


def test_a_job_inside_one_server_sends_nothing(tmp_path):
    _, run = simulated_file("single-server", tmp_path)
    assert set(run.truth("steps")["job"]) == {"inside", "across"}
    assert set(run.truth("pairs")["job"]) == {"across"}


def test_jobs_come_and_go_inside_the_window(tmp_path):
    scenario, run = simulated_file("come-and-go", tmp_path)
    steps = run.truth("steps").groupby("job").agg({"start_ns": "min", "end_ns": "max"})
    begin, end = (steps[c] - scenario.epoch_ns for c in ("start_ns", "end_ns"))
    assert (end < scenario.duration_s * 1e9).all()
    assert begin["late"] > end["early"]
    flows = pd.read_parquet(run.flows)
    assert flows["end_ns"].max() - scenario.epoch_ns > end.max()  # background goes on


def test_an_idle_cluster_has_no_flows_and_lasts(tmp_path):
    scenario, run = simulated_file("idle", tmp_path)
    assert len(pd.read_parquet(run.flows)) == len(run.truth("pairs")) == 0
    assert run.read_json(run.manifest)["simulated_ns"] == scenario.duration_s * 1e9


def background(tmp_path, **given):
    fields = {"name": "logs", "flows_per_s": 2000.0, "median_bytes": 1e4} | given
    scenario = {"cluster": {"servers": 4}, "jobs": [], "duration_s": 2.0, "background": [fields]}
    run = Run(tmp_path)
    simulate(Scenario.model_validate(scenario), run)
    return run, pd.read_parquet(run.flows)


def test_background_is_a_poisson_process_of_lognormal_sizes(tmp_path):
    _, flows = background(tmp_path, to="s0003", servers=["s0000", "s0001"])
    assert len(flows) == pytest.approx(4000, abs=4 * 4000**0.5)
    gaps = np.diff(np.sort(flows["start_ns"]))
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.1)
    logs = np.log(flows["bytes"])
    assert (np.exp(logs.median()), logs.std()) == (
        pytest.approx(1e4, rel=0.1), pytest.approx(1, abs=0.05),
    )  # fmt: skip


def test_background_has_its_given_destinations(tmp_path):
    run, flows = background(tmp_path, to="s0003")
    servers = {e["address"]: e["server"] for e in run.read_json(run.topology)["endpoints"]}
    assert set(flows["dst"].astype(str).map(servers)) == {"s0003"}
    assert set(flows["src"].astype(str).map(servers)) == {"s0000", "s0001", "s0002"}
    assert set(run.truth("pairs")["kind"]) == {"other"}

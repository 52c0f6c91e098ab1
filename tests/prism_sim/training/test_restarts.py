"""Restarts of jobs, and jobs of several tenants."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from prism_common.errors import UserError
from prism_sim.clock import Clock
from prism_sim.cluster.placement import Placement
from prism_sim.toolkit import Cluster, Draws, Job, Run, Scenario, load_scenario, simulate
from prism_sim.training.restarts import Failure, attempts
from tiny import TINY_MODEL

S = 1_000_000_000
FAILS = {"step": 3, "rank": 5, "noticed_after_s": 20, "down_s": 40}


def job_of(folder, faults=(), **job):
    """A job of 2 replicas x 2 stages x 4 on three servers, the fourth with storage."""
    fields = {"name": "a", "model": TINY_MODEL, "micro_batches": 4, "steps": 6, "dp": 2, "pp": 2,
              "tp": 4, "placement": "spread"}  # fmt: skip
    scenario = {"cluster": {"servers": 5}, "storage": ["s0004"], "faults": faults,
                "jobs": [fields | job]}  # fmt: skip
    run = Run(folder)
    simulate(Scenario.model_validate(scenario), run)
    return run


def starts_of(run, rank=0):
    steps = run.truth("steps")
    return steps[steps["rank"] == rank].set_index("step")["start_ns"]


@pytest.mark.parametrize(
    ("checkpoint", "made"),
    [
        (None, [0, 1, 2, 4, 5, 6]),  # the broken step is made again, and the others
        ({"every": 2}, [0, 1, 2, 4, 5, 6, 7]),  # iteration 2 is lost as well
        ({"every": 5}, [0, 1, 2, 4, 5, 6, 7, 8, 9]),  # nothing has been saved
    ],
)
def test_a_job_resumes_from_its_last_save(tmp_path, checkpoint, made):
    run = job_of(tmp_path, restarts=[FAILS], checkpoint=checkpoint)
    steps = run.truth("steps")
    by_rank = steps.groupby("rank")["step"].apply(list)
    assert by_rank.tolist() == [made] * 16


def following(folder, start_s):
    """A job on all GPUs of a server, and another one after it."""
    fields = {"model": TINY_MODEL, "micro_batches": 4, "steps": 3, "dp": 2, "tp": 4}
    first = {"name": "a", "placement": {"servers": ["s0000"]}}
    jobs = [fields | first, fields | first | {"name": "b", "after": "a", "start_s": start_s}]
    run = Run(folder)
    simulate(Scenario.model_validate({"cluster": {"servers": 2}, "jobs": jobs}), run)
    return run


def test_a_job_follows_on_the_gpus_of_one_that_has_ended(tmp_path):
    run = following(tmp_path, 30.0)
    steps, ranks = run.truth("steps").groupby("job"), run.truth("ranks").groupby("job")
    ends, begins = steps["end_ns"].max(), steps["start_ns"].min()
    assert begins["b"] - begins["a"] == 30 * S
    assert ends["a"] < begins["b"] < ends["b"]
    assert ranks["address"].apply(set)["a"] == ranks["address"].apply(set)["b"]


def test_a_job_that_would_begin_before_the_other_has_ended_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"starts at 0\.001 s, and a has not ended then"):
        following(tmp_path, 0.001)
    assert not (tmp_path / "flows.parquet").exists()


def test_all_is_silent_from_the_failure_until_the_job_is_up_again(tmp_path):
    run = job_of(tmp_path, restarts=[FAILS])
    flows = pd.read_parquet(run.flows).sort_values("start_ns")
    pause_ns = flows["start_ns"].to_numpy()[1:] - flows["end_ns"].cummax().to_numpy()[:-1]
    assert pause_ns.max() == pytest.approx(60 * S, rel=0.02)
    assert (pause_ns > S).sum() == 1
    begins = starts_of(run)
    assert begins[4] - begins[2] == pytest.approx(60 * S, rel=0.02)


def test_the_next_attempt_has_new_connections(tmp_path):
    run = job_of(tmp_path, restarts=[FAILS])
    flows, again_ns = pd.read_parquet(run.flows), starts_of(run)[4]
    tuples = ["src", "dst", "src_port"]
    before, after = (
        set(part[tuples].astype({"src": str, "dst": str}).itertuples(index=False, name=None))
        for part in (flows[flows["start_ns"] < again_ns], flows[flows["start_ns"] >= again_ns])
    )
    assert {t[:2] for t in before} == {t[:2] for t in after}
    assert not before & after


def test_until_it_fails_a_job_is_the_one_that_never_does(tmp_path):
    fields = {"compute_jitter": 0.05, "step_overhead_ms": 2}
    failing = job_of(tmp_path / "failing", restarts=[FAILS], **fields)
    lasting = job_of(tmp_path / "lasting", **fields)
    first = [run.truth("steps").query("step < 3") for run in (failing, lasting)]
    pd.testing.assert_frame_equal(*(f.reset_index(drop=True) for f in first))


def test_every_rank_reads_its_part_back(tmp_path):
    run = job_of(tmp_path, restarts=[FAILS], checkpoint={"every": 2}, zero_stage=1)
    pairs = run.truth("pairs").set_index(["src", "dst"])
    storage = {e["address"] for e in run.read_json(run.topology)["endpoints"]
               if e.get("kind") == "storage"}  # fmt: skip
    other = pairs[pairs["kind"] == "other"].reset_index()
    read, written = (other[other[end].isin(storage)] for end in ("src", "dst"))
    assert read["dst"].nunique() == 16
    # saved after iterations 1, 3 and 5 of the training; read once
    assert written["bytes"].sum() == 3 * read["bytes"].sum()
    spans = run.truth("spans").astype({"kind": str})
    restores = spans[spans["kind"] == "restore"]
    assert sorted(restores["rank"]) == list(range(16))
    assert (restores["step"] == 4).all()


def test_a_rank_reads_the_shard_that_its_neighbours_do_not_have(tmp_path):
    """Two pairs of replicas have a copy each: one is written, both read."""
    run = job_of(tmp_path, restarts=[FAILS], checkpoint={"every": 2}, zero_stage=1, dp=4, pp=1,
                 hybrid_shards=2)  # fmt: skip
    spans = run.truth("spans").astype({"kind": str})
    saves = spans.query("kind == 'checkpoint'")["step"].nunique()
    ends = run.read_json(run.topology)["endpoints"]
    storage = {e["address"] for e in ends if e.get("kind") == "storage"}
    pairs = run.truth("pairs")
    read, written = (pairs[pairs[end].isin(storage)]["bytes"].sum() for end in ("src", "dst"))
    assert read / 2 == pytest.approx(written / saves, rel=1e-6)


def test_a_second_failure_and_a_warm_up_after_each(tmp_path):
    twice = [FAILS, FAILS | {"step": 5, "rank": 0}]
    run = job_of(tmp_path, restarts=twice, warm_up_steps=1, warm_up_factor=2.0)
    steps = run.truth("steps").query("rank == 0").set_index("step")
    assert steps.index.tolist() == [0, 1, 2, 4, 6, 7]
    spans = run.truth("spans").astype({"kind": str}).query("rank == 0 and kind == 'fwd'")
    length = (spans["end_ns"] - spans["start_ns"]).groupby(spans["step"]).median()
    cold = length / length.min()
    assert cold[[0, 1, 2, 4, 6, 7]].tolist() == pytest.approx([2, 1, 1, 2, 2, 1], rel=1e-3)


def test_a_slow_gpu_stays_slow_in_the_next_attempt(tmp_path):
    fault = {"kind": "slow_gpu", "job": "a", "rank": 5, "factor": 0.5, "from_step": 3,
             "to_step": 5}  # fmt: skip
    run = job_of(tmp_path, faults=[fault], restarts=[FAILS | {"rank": 0}])
    spans = run.truth("spans").astype({"kind": str}).query("rank == 5 and kind == 'fwd'")
    length = (spans["end_ns"] - spans["start_ns"]).groupby(spans["step"]).median()
    assert (length / length[0])[[2, 4, 5]].tolist() == pytest.approx([1, 2, 1], rel=1e-3)


def test_a_socket_library_draws_again_in_the_next_attempt(tmp_path):
    """Without any other chance, reductions of equal steps differ by their handling alone."""
    library = {"handling_ms": 1.0, "handling_sigma": 0.5}
    run = job_of(tmp_path, restarts=[FAILS], library=library, zero_stage=0, pp=1,
                 overlap_gradients=False)  # fmt: skip
    spans = run.truth("spans").astype({"kind": str}).query("rank == 0 and kind == 'all_reduce'")
    length = (spans["end_ns"] - spans["start_ns"]).groupby(spans["step"]).sum()
    assert length.index.tolist() == [0, 1, 2, 4, 5, 6]
    assert length.nunique() == 6


def test_nothing_is_abandoned_while_a_rank_still_works():
    """What the working rank joins at last is finished by those that waited for it."""
    env, abandoned_s = Clock(), []
    joined, never = env.event(), env.event()

    def waits():
        yield joined
        yield never

    def works():
        yield env.timeout(30 * S)
        joined.succeed()
        yield never

    job = SimpleNamespace(
        network=SimpleNamespace(env=env),
        workers=[SimpleNamespace(run=waits), SimpleNamespace(run=works)],
        failures=[],
        abandon=lambda _: abandoned_s.append(env.now / S),
    )
    env.process(attempts(job, "a", [], lasting=True))
    env.call_at(S, lambda: job.supervision.fail(Failure(600 * S, None)))
    env.run()
    assert [30 <= at < 40 for at in abandoned_s] == [True]


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


def test_jobs_come_and_go_inside_the_window(tmp_path):
    scenario, run = simulated_file("come-and-go", tmp_path)
    steps = run.truth("steps").groupby("job").agg({"start_ns": "min", "end_ns": "max"})
    begin, end = (steps[c] - scenario.epoch_ns for c in ("start_ns", "end_ns"))
    assert (end < scenario.duration_s * 1e9).all()
    assert begin["late"] > end["early"]
    flows = pd.read_parquet(run.flows)
    assert flows["end_ns"].max() - scenario.epoch_ns > end.max()  # background goes on


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

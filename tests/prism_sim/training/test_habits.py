"""Work of jobs around their steps: varying lengths, warm-up, evaluation, saves, reads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from prism_sim.toolkit import Cluster, Job, Run, Scenario, simulate, stage_costs
from tiny import TINY_MODEL


def with_storage(folder, storage=("s0003",), **job):
    """One job of eight ranks on servers 0 to 2, with storage on the last one."""
    fields = {"name": "a", "model": TINY_MODEL, "micro_batches": 2, "steps": 4, "dp": 2, "tp": 4}
    scenario = {"cluster": {"servers": 4}, "storage": storage, "jobs": [fields | job]}
    run = Run(folder)
    simulate(Scenario.model_validate(scenario), run)
    return run


def spans_of(run, *kinds):
    spans = run.truth("spans").astype({"kind": str})
    return spans[spans["kind"].isin(kinds)]


def test_lengths_vary_alike_in_all_stages_and_change_messages_with_compute(simulated):
    run = simulated(pp=4, tp=8, dp=1, micro_batches=6, steps=2, length_spread=0.4,
                    head_on_last_stage=False)  # fmt: skip
    spans = spans_of(run, "fwd")
    length = (spans["end_ns"] - spans["start_ns"]).groupby([spans["step"], spans["micro_batch"]])
    assert (length.max() - length.min()).max() <= 1
    assert length.first().nunique() == 12
    flows = pd.read_parquet(run.flows)
    nominal = 2 * TINY_MODEL["sequence_length"] * TINY_MODEL["hidden"] / 8
    tokens = np.sort(flows["bytes"].unique() / nominal)
    assert len(tokens) == 12
    job = Job(name="a", model=TINY_MODEL, pp=4, tp=8, micro_batches=6, steps=2,
              head_on_last_stage=False)  # fmt: skip
    cluster = Cluster(servers=4)
    chunk = stage_costs(job, cluster)[0].chunks[0]
    h, s = TINY_MODEL["hidden"], TINY_MODEL["sequence_length"]
    flops_per_ns = cluster.gpu.peak_tflops * 1e3 * job.mfu * 8
    products_ns, attention_ns = (f * s / flops_per_ns for f in (24 * h * h, 4 * s * h))
    hop_ns = 2 * s * h / 8 / (cluster.nvlink_gbps / 8) + cluster.nvlink_latency_ns
    exchange_ns = 2 * 2 * 7 * hop_ns  # two all-reduces, two rounds of seven hops
    whole_ns = products_ns + attention_ns + exchange_ns
    assert chunk.forward_ns == pytest.approx(2 * whole_ns)  # two layers
    assert chunk.quadratic == pytest.approx(attention_ns / whole_ns)
    factor = (1 - chunk.quadratic) * tokens + chunk.quadratic * tokens**2
    assert np.sort(length.first()) == pytest.approx(factor * chunk.forward_ns, rel=1e-4)


def test_replicas_have_lengths_of_their_own(simulated):
    run = simulated(dp=2, tp=8, steps=1, micro_batches=3, length_spread=0.4)
    spans = spans_of(run, "fwd")
    length = (spans["end_ns"] - spans["start_ns"]).groupby(spans["rank"] // 8).apply(sorted)
    assert length[0] != length[1]


def test_the_first_steps_are_slower_each_less_than_the_one_before(simulated):
    run = simulated(steps=6, micro_batches=1, warm_up_steps=4, warm_up_factor=3.0)
    spans = spans_of(run, "fwd").sort_values("step")
    length = (spans["end_ns"] - spans["start_ns"]).to_numpy()
    assert length / length[-1] == pytest.approx([3, 2.5, 2, 1.5, 1, 1], rel=1e-4)


def test_an_evaluation_only_goes_forward_and_pauses_training(simulated):
    fields = {"pp": 2, "tp": 8, "dp": 2, "steps": 5, "micro_batches": 4}
    run = simulated(evaluation={"every": 2, "micro_batches": 3}, **fields)
    passes = spans_of(run, "eval_fwd")
    assert passes.groupby(["rank", "step"]).size().unstack().to_numpy().tolist() == [[3, 3]] * 32
    assert sorted(passes["step"].unique()) == [1, 3]
    steps = run.truth("steps").set_index(["rank", "step"])
    between = passes.set_index(["rank", "step"])
    assert (between["start_ns"] >= steps["end_ns"].reindex(between.index)).all()
    following = pd.MultiIndex.from_arrays(
        [between.index.get_level_values(0), between.index.get_level_values(1) + 1]
    )
    assert (between["end_ns"].to_numpy() <= steps["start_ns"].reindex(following)).all()
    without = simulated("without", **fields)

    def sent(run, kind):
        pairs = run.truth("pairs")
        return pairs.loc[pairs["kind"] == kind, "bytes"].sum()

    assert sent(run, "dp") == sent(without, "dp")
    message = 2 * TINY_MODEL["sequence_length"] * TINY_MODEL["hidden"]
    assert sent(run, "pp") - sent(without, "pp") == 2 * 3 * 2 * message  # replicas, ...


PARAMETERS = sum(
    stage_costs(Job(name="a", model=TINY_MODEL, tp=4, micro_batches=1, steps=1),
                Cluster(servers=4))[0].parameters
)  # fmt: skip


@pytest.mark.parametrize(("zero_stage", "writers"), [(0, 4), (1, 8)])
def test_a_checkpoint_is_the_state_once(tmp_path, zero_stage, writers):
    run = with_storage(tmp_path, zero_stage=zero_stage, checkpoint={"every": 2})
    pairs, topology = run.truth("pairs"), run.read_json(run.topology)
    storage = {e["address"] for e in topology["endpoints"] if e.get("kind") == "storage"}
    assert {e["server"] for e in topology["endpoints"] if e["address"] in storage} == {"s0003"}
    saved = pairs[pairs["dst"].isin(storage)]
    assert set(saved["kind"]) == {"other"}
    assert len(saved) == writers
    assert saved["bytes"].sum() == pytest.approx(2 * 4 * 14 * PARAMETERS, rel=1e-6)
    assert not set(run.truth("ranks")["address"]) & storage


def test_a_synchronous_save_delays_all_ranks_and_an_asynchronous_one_none(tmp_path):
    sync = with_storage(tmp_path / "sync", checkpoint={"every": 2})
    late = with_storage(tmp_path / "async", checkpoint={"every": 2, "mode": "async"})
    none = with_storage(tmp_path / "none")

    def pause_ns(run, step):
        steps = run.truth("steps").set_index(["rank", "step"])
        return int(steps.loc[(0, step + 1), "start_ns"] - steps.loc[(0, step), "end_ns"])

    saves = spans_of(sync, "checkpoint").set_index(["rank", "step"])
    for rank in range(8):
        saved = saves.loc[(rank, 1)]
        assert saved["end_ns"] - saved["start_ns"] == pause_ns(sync, 1)
    assert pause_ns(sync, 1) > 0 == pause_ns(sync, 0)
    assert pause_ns(late, 1) == pause_ns(none, 1) == 0
    running = spans_of(late, "checkpoint")
    begun = late.truth("steps").set_index(["rank", "step"])["start_ns"]
    assert (running[running["step"] == 1]["end_ns"] > begun[(0, 2)]).all()


def test_the_last_asynchronous_save_arrives_before_the_job_ends(tmp_path):
    run = with_storage(tmp_path, checkpoint={"every": 2, "mode": "async"})
    saves = spans_of(run, "checkpoint")
    all_ranks = list(range(8))
    assert saves.groupby("step")["rank"].apply(sorted).to_dict() == {1: all_ranks, 3: all_ranks}
    ends = run.truth("steps").groupby("rank")["end_ns"].max()
    last = saves[saves["step"] == 3].set_index("rank")["end_ns"]
    assert (last > ends).all()
    pairs = run.truth("pairs")
    saved = pairs.loc[pairs["kind"] == "other", "bytes"].sum()
    assert saved == pytest.approx(2 * 4 * 14 * PARAMETERS, rel=1e-6)


def test_data_are_read_a_step_ahead_by_the_first_stage(tmp_path):
    run = with_storage(tmp_path, pp=2, dp=2, tp=4, loading={"bytes_per_token": 4})
    loads = spans_of(run, "load")
    reads = pd.read_parquet(run.flows)
    storage = {
        e["address"] for e in run.read_json(run.topology)["endpoints"] if e.get("kind") == "storage"
    }
    reads = reads[reads["src"].astype(str).isin(storage)]
    tokens = 2 * TINY_MODEL["sequence_length"]
    assert len(reads) == 4 * 2  # steps, replicas
    assert set(reads["bytes"]) == {4 * tokens}
    first_stage = run.truth("ranks").query("pp == 0")["rank"]
    assert set(loads["rank"]) <= set(first_stage)
    steps = run.truth("steps").set_index(["rank", "step"])["start_ns"]
    loads = loads.set_index(["rank", "step"])
    assert (loads["end_ns"] <= steps.reindex(loads.index)).all()
    ahead = loads.loc[(0, 2)]
    assert ahead["start_ns"] <= steps[(0, 1)]


def test_slow_storage_makes_steps_wait(tmp_path):
    fast = with_storage(tmp_path / "fast", loading={"bytes_per_token": 4})
    slow = with_storage(tmp_path / "slow", loading={"bytes_per_token": 1e6})
    ends = [run.truth("steps")["end_ns"].max() for run in (fast, slow)]
    read_ns = 2 * TINY_MODEL["sequence_length"] * 1e6 / 50  # at 400 Gbit/s
    assert ends[1] - ends[0] > 3 * read_ns

"""Whole jobs against closed forms: pipelines, bytes, order of events."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from prism_sim.toolkit import Cluster, Job, Run, Scenario, preset, simulate, stage_costs
from prism_sim.training.costs import pipeline_message_bytes, step_flops
from prism_sim.training.data_parallel import buckets
from tiny import TINY_MODEL


def spans_of(run, *kinds):
    spans = run.truth("spans")
    return spans[spans["kind"].isin(kinds)]


def test_bytes_on_the_wire_are_those_the_model_implies(simulated):
    run = simulated(dp=2, pp=2, tp=8, micro_batches=4, steps=3)
    model = json.loads(run.manifest.read_text())["scenario"]["jobs"][0]
    job, cluster = Job.model_validate(model), Cluster(servers=4)
    flows = pd.read_parquet(run.flows)
    kind = run.truth("pairs").set_index(["src", "dst"])["kind"]
    at = pd.MultiIndex.from_frame(flows[["src", "dst"]].astype(str))
    sent = flows["bytes"].groupby(kind.reindex(at).to_numpy()).sum()
    messages = 3 * 2 * 4 * 8 * 2  # steps, directions, micro-batches, ranks of tp, replicas
    assert sent["pp"] == messages * pipeline_message_bytes(job)
    gradients = sum(sum(stage.parameters) for stage in stage_costs(job, cluster))
    # Each of two ranks sends half a bucket in the reduce-scatter, and half in the gather.
    exact = 3 * 8 * 2 * gradients * (job.gradient_bytes + job.parameter_bytes) // 2
    pieces = 3 * 8 * 2 * 2 * sum(len(buckets(job, s.parameters)) for s in stage_costs(job, cluster))
    assert exact <= sent["dp"] <= exact + pieces


def test_no_message_leaves_before_its_data_and_no_work_starts_before_its_message(simulated):
    run = simulated(pp=4, tp=8, dp=1, micro_batches=6, steps=2, compute_jitter=0.1)
    ranks = run.truth("ranks").set_index("rank")["pp"]
    spans = run.truth("spans")
    spans["pp"] = spans["rank"].map(ranks)
    spans = spans[spans["rank"] % 8 == 0].set_index(["step", "micro_batch", "pp", "kind"])
    for (step, mb, stage, kind), row in spans.iterrows():
        if kind == "send_act":
            assert row["start_ns"] == spans.loc[(step, mb, stage, "fwd"), "end_ns"]
            arrived = spans.loc[(step, mb, stage + 1, "recv_act"), "end_ns"]
            assert row["end_ns"] == arrived
            assert spans.loc[(step, mb, stage + 1, "fwd"), "start_ns"] >= arrived
        if kind == "send_grad":
            assert row["start_ns"] == spans.loc[(step, mb, stage, "bwd"), "end_ns"]
            arrived = spans.loc[(step, mb, stage - 1, "recv_grad"), "end_ns"]
            assert spans.loc[(step, mb, stage - 1, "bwd"), "start_ns"] >= arrived


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("zero_stage", [0, 1])
def test_a_step_ends_after_its_data_parallel_traffic(simulated, overlap, zero_stage):
    run = simulated(
        dp=4, tp=8, zero_stage=zero_stage, overlap_gradients=overlap, bucket_params=20_000_000,
        compute_jitter=0.1, steps=3,
    )  # fmt: skip
    steps = run.truth("steps").set_index(["rank", "step"])
    dp = spans_of(run, "reduce_scatter", "all_gather", "all_reduce")
    assert set(dp["kind"]) == ({"reduce_scatter", "all_gather"} if zero_stage else {"all_reduce"})
    ends = dp.groupby(["rank", "step"])["end_ns"].max()
    assert (ends <= steps["end_ns"].reindex(ends.index)).all()
    update = spans_of(run, "opt").set_index(["rank", "step"])
    reduced = dp[dp["kind"] != "all_gather"].groupby(["rank", "step"])["end_ns"].max()
    assert (update["start_ns"] >= reduced.reindex(update.index)).all()
    flows = pd.read_parquet(run.flows)
    assert flows["end_ns"].max() <= steps["end_ns"].max()


@pytest.mark.parametrize("algorithm", ["ring", "tree", "hierarchical"])
def test_all_reduce_algorithms_move_the_same_gradients(simulated, algorithm):
    run = simulated(dp=8, tp=2, zero_stage=0, all_reduce=algorithm, cluster={"servers": 2})
    pairs = run.truth("pairs")
    job = Job(name="a", model=TINY_MODEL, dp=8, tp=2, micro_batches=1, steps=1)
    (stage,) = stage_costs(job, Cluster(servers=2))
    gradients = 2 * 2 * sum(stage.parameters) * job.gradient_bytes  # steps, ranks of tp
    # Between two servers: what all members sum up crosses once each way, and twice as
    # 2 (n - 1) / n of it in the flat ring, where it also crosses for the other members' sake.
    crossings = {"ring": 2 * 2 * 7 / 8, "tree": 2, "hierarchical": 2 * 2 * 1 / 2}
    assert pairs["bytes"].sum() == pytest.approx(crossings[algorithm] * gradients, rel=1e-3)


def test_a_step_of_a_gpt_costs_the_flops_of_the_megatron_paper():
    gpt = preset("gpt-175b").model_copy(update={"biases": False})
    job = Job(name="a", model=gpt, micro_batches=12, recompute="full", steps=1)
    b, s, layers, h, v = 12, gpt.sequence_length, gpt.layers, gpt.hidden, gpt.vocab
    published = 96 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    assert step_flops(job) == pytest.approx(published, rel=1e-9)
    without = job.model_copy(update={"recompute": "none"})
    published = 72 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert step_flops(without) == pytest.approx(published, rel=1e-9)


def test_backward_takes_twice_the_forward_without_recomputation():
    job = Job(name="a", model="llama-7b", micro_batches=1, steps=1)
    (cost,) = stage_costs(job, Cluster(servers=1))
    assert cost.backward_ns == pytest.approx(2 * cost.forward_ns)


def test_stages_own_all_parameters_of_the_model():
    job = Job(name="a", model="llama-13b", pp=4, tp=1, micro_batches=1, steps=1)
    owned = sum(sum(stage.parameters) for stage in stage_costs(job, Cluster(servers=4)))
    assert owned == job.model.total_parameters


def test_buckets_follow_the_order_of_the_backward_pass():
    job = Job(name="a", model="llama-7b", bucket_params=100, micro_batches=1, steps=1)
    assert buckets(job, (60, 50, 10, 200, 5)) == [110, 210, 5]
    one = Job(name="a", model="llama-7b", overlap_gradients=False, micro_batches=1, steps=1)
    assert buckets(one, (60, 50, 10)) == [120]


def test_a_link_at_half_its_rate_doubles_the_wait_for_it(simulated):
    """Oversubscribed so that everything crosses the one uplink of a rack."""
    fabric = {"kind": "tor", "leaf_ports": 8, "uplinks": 1, "spines": 1}
    fields = {"dp": 2, "tp": 8, "steps": 2, "micro_batches": 1}
    alone = simulated("alone", cluster={"servers": 2, "fabric": fabric}, **fields)
    slow_fault = {"kind": "slow_link", "a": "leaf000", "b": "spine00", "factor": 0.5, "from_s": 0}
    slow = simulated(
        "slow", cluster={"servers": 2, "fabric": fabric}, faults=[slow_fault], **fields
    )

    def gather_ns(run):
        spans = spans_of(run, "all_gather")
        return float(np.max(spans["end_ns"] - spans["start_ns"]))

    assert gather_ns(slow) == pytest.approx(2 * gather_ns(alone), rel=1e-3)


def test_two_jobs_slow_each_other_down_exactly_where_they_share_a_link(tmp_path):
    """Two racks, one uplink each: two jobs across it get half of it each."""
    fabric = {"kind": "tor", "leaf_ports": 16, "uplinks": 1, "spines": 1}
    job = {"model": TINY_MODEL, "dp": 2, "tp": 8, "steps": 2, "micro_batches": 1}
    across = [["s0000", "s0002"], ["s0001", "s0003"]]
    jobs = [
        {"name": f"j{i}", "placement": {"servers": servers}, **job}
        for i, servers in enumerate(across)
    ]

    def gather_ns(folder, jobs):
        scenario = {"cluster": {"servers": 4, "fabric": fabric}, "jobs": jobs}
        run = Run(tmp_path / folder)
        simulate(Scenario.model_validate(scenario), run)
        spans = spans_of(run, "all_gather")
        return float(np.max(spans["end_ns"] - spans["start_ns"]))

    alone, together = gather_ns("alone", jobs[:1]), gather_ns("together", jobs)
    assert together == pytest.approx(2 * alone, rel=1e-3)


def test_messages_of_one_connection_follow_each_other(simulated):
    """On a slow link all activations wait for the one before them; none shares its rate."""
    run = simulated(
        pp=2, tp=8, micro_batches=6, schedule="gpipe", steps=1,
        cluster={"servers": 2, "nic_gbps": 1},
    )  # fmt: skip
    spans = spans_of(run, "send_act")
    first = spans[spans["rank"] == 0].sort_values("start_ns")
    starts, ends = first["start_ns"].to_numpy(), first["end_ns"].to_numpy()
    assert len(first) == 6
    latency_ns = int(ends[0] - starts[1])
    assert 0 < latency_ns < 100_000
    assert (ends[:-1] - starts[1:] == latency_ns).all()
    alone_ns = ends[0] - starts[0]
    assert ends - starts == pytest.approx(alone_ns, abs=1)

"""Strategies of replicas, and the numbers of their communications."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from prism_sim.toolkit import Cluster, Job, stage_costs
from prism_sim.training.program import PLAIN, Await, Compute, woven
from tiny import TINY_MODEL, simulate_one

PARAMETERS = sum(
    stage_costs(Job(name="a", model=TINY_MODEL, micro_batches=1, steps=1), Cluster(servers=4))[
        0
    ].parameters
)


def sent_bytes(run):
    return run.truth("pairs").groupby("kind")["bytes"].sum()


def of_rank(run, rank=0, step=None):
    """Spans of one rank as (kind, start, end), in order of start."""
    spans = run.truth("spans")
    spans = spans[spans["rank"] == rank]
    if step is not None:
        spans = spans[spans["step"] == step]
    return spans.sort_values(["start_ns", "end_ns"]).reset_index(drop=True)


@pytest.mark.parametrize(
    ("zero_stage", "of_gradients", "of_parameters"),
    [
        (0, 2, 0),  # an all-reduce of gradients
        (1, 1, 1),  # a reduce-scatter, and a gather of parameters
        (2, 2, 1),  # gradients go with each of two micro-batches
        (3, 2, 4),  # parameters twice a micro-batch, gradients once
    ],
)
def test_each_zero_stage_moves_the_published_volume(
    simulated, zero_stage, of_gradients, of_parameters
):
    """Four ranks on four servers: each sends (n - 1) / n of every buffer it takes part in."""
    run = simulated(
        dp=4, tp=1, zero_stage=zero_stage, micro_batches=2, steps=2,
        placement="spread", bucket_params=20_000_000,
    )  # fmt: skip
    volume = (4 * of_gradients + 2 * of_parameters) * PARAMETERS
    expected = 2 * 4 * 3 / 4 * volume  # steps, ranks
    assert sent_bytes(run).to_dict() == {"dp": pytest.approx(expected, rel=1e-4)}


@pytest.mark.parametrize("zero_stage", [0, 1])
def test_accumulated_gradients_are_reduced_with_the_last_micro_batch(simulated, zero_stage):
    fields = {"dp": 4, "tp": 1, "zero_stage": zero_stage, "steps": 1, "placement": "spread",
              "bucket_params": 20_000_000}  # fmt: skip
    runs = [simulated(f"{n}", micro_batches=n, **fields) for n in (1, 16)]
    assert sent_bytes(runs[0]).to_dict() == sent_bytes(runs[1]).to_dict()
    backward = of_rank(runs[1]).query("kind == 'bwd'").iloc[-1]
    flows = pd.read_parquet(runs[1].flows)
    assert backward["start_ns"] < flows["start_ns"].min() < backward["end_ns"]


def test_zero_3_gathers_every_block_twice_and_scatters_it_once(simulated):
    run = simulated(dp=4, tp=1, zero_stage=3, micro_batches=1, steps=1, placement="spread")
    spans = of_rank(run)
    units = TINY_MODEL["layers"] + 2  # embedding and head
    counts = spans["kind"].value_counts()
    assert (counts["all_gather"], counts["reduce_scatter"]) == (2 * units, units)
    forward, backward = (spans[spans["kind"] == kind].iloc[0] for kind in ("fwd", "bwd"))
    gathers = spans[spans["kind"] == "all_gather"]
    assert (gathers["start_ns"] < forward["end_ns"]).sum() == units
    scatters = spans[spans["kind"] == "reduce_scatter"]
    assert scatters["start_ns"].between(backward["start_ns"], backward["end_ns"]).all()
    update = spans[spans["kind"] == "opt"].iloc[0]
    assert scatters["end_ns"].max() == update["start_ns"]


def test_zero_3_moves_its_volume_in_a_stage_without_computation(simulated):
    """The first stage has only the embedding, which takes no time."""
    run = simulated(dp=2, pp=2, tp=1, zero_stage=3, stage_layers=[0, 8], micro_batches=2, steps=1,
                    placement="spread")  # fmt: skip
    expected = 2 * 1 / 2 * (2 * 4 + 2 * 2 * 2) * PARAMETERS  # replicas; gradients, parameters
    assert sent_bytes(run)["dp"] == pytest.approx(expected, rel=1e-4)


def test_zero_3_gathers_ahead_of_use_and_only_one_block(simulated):
    """The next gather is joined when the compute of the present block may begin."""
    run = simulated(dp=4, tp=1, zero_stage=3, micro_batches=1, steps=1, placement="spread",
                    cluster={"nic_gbps": 1e6})  # fmt: skip
    spans = of_rank(run)
    forward = spans[spans["kind"] == "fwd"].iloc[0]
    gathers = spans[(spans["kind"] == "all_gather") & (spans["start_ns"] < forward["end_ns"])]
    joined = (gathers["start_ns"] - forward["start_ns"]).to_numpy()
    layers = TINY_MODEL["layers"]
    job = Job(name="a", model=TINY_MODEL, micro_batches=1, steps=1)
    units = stage_costs(job, Cluster(servers=4))[0].chunks[0].units
    weights = np.array([unit.weight for unit in units], float)
    begins = np.cumsum([0, *weights[:-1]]) / weights.sum()
    # Unit k + 1 is gathered when unit k begins: the first two at once, and so on.
    expected = [0.0, *begins[:-1]]
    assert len(joined) == layers + 2
    assert joined / (forward["end_ns"] - forward["start_ns"]) == pytest.approx(expected, abs=0.02)


def test_a_slow_network_makes_forward_wait_for_its_parameters(simulated):
    def forward_ns(folder, gbps):
        run = simulated(folder, dp=4, tp=1, zero_stage=3, micro_batches=1, steps=1,
                        placement="spread", cluster={"nic_gbps": gbps})  # fmt: skip
        forward = of_rank(run)
        forward = forward[forward["kind"] == "fwd"].iloc[0]
        return forward["end_ns"] - forward["start_ns"]

    gather_ns = 3 / 4 * 2 * PARAMETERS / (1 / 8)  # at 1 Gbit/s, alone
    assert forward_ns("slow", 1.0) == pytest.approx(gather_ns, rel=0.05)
    assert forward_ns("fast", 1e6) < forward_ns("slow", 1.0) / 10


def test_gathers_of_the_next_step_hide_behind_its_forward(simulated):
    fields = {"dp": 4, "tp": 1, "steps": 3, "placement": "spread", "bucket_params": 20_000_000}
    late = simulated("late", overlap_param_gather=True, **fields)
    soon = simulated("soon", **fields)
    spans = of_rank(late, step=1)
    gathers, forward = (spans[spans["kind"] == kind] for kind in ("all_gather", "fwd"))
    begin_ns = forward["start_ns"].min()
    assert (gathers["start_ns"] == begin_ns).all()
    assert gathers["end_ns"].max() > begin_ns
    # The first forward cannot end before all parameters are there.
    assert forward.iloc[0]["end_ns"] >= gathers["end_ns"].max()
    assert "all_gather" not in set(of_rank(late, step=0)["kind"])
    last = [run.truth("steps")["end_ns"].max() for run in (late, soon)]
    assert last[0] < last[1]
    moved = [run.truth("pairs")["bytes"].sum() for run in (late, soon)]
    gathered = 4 * 3 / 4 * 2 * PARAMETERS  # of the last step, which nobody needs any more
    assert moved[1] - moved[0] == pytest.approx(gathered, rel=1e-4)


def test_hybrid_sharding_gathers_inside_and_all_reduces_outside(simulated):
    """Two servers of four replicas: only sharded gradients cross between them."""
    run = simulated(
        dp=8, tp=1, zero_stage=3, hybrid_shards=4, micro_batches=1, steps=1,
        cluster={"servers": 2, "gpus_per_server": 4, "nics_per_server": 4},
    )  # fmt: skip
    kinds = of_rank(run)["kind"].value_counts()
    units = TINY_MODEL["layers"] + 2
    assert kinds[["all_gather", "reduce_scatter", "all_reduce"]].tolist() == [
        2 * units, units, units,
    ]  # fmt: skip
    # Each of 8 ranks all-reduces its quarter with one other: 2 (n - 1) / n of it, n = 2.
    assert sent_bytes(run)["dp"] == pytest.approx(8 * 4 * PARAMETERS / 4, rel=1e-3)
    between = run.truth("pairs").merge(
        run.truth("ranks")[["address", "dp"]], left_on="src", right_on="address"
    ).merge(run.truth("ranks")[["address", "dp"]], left_on="dst", right_on="address")  # fmt: skip
    assert set(between["dp_y"] - between["dp_x"]) == {4, -4}


def test_hybrid_reductions_follow_each_other(simulated):
    run = simulated(dp=8, tp=1, hybrid_shards=4, zero_stage=1, steps=1, bucket_params=30_000_000,
                    cluster={"servers": 2, "gpus_per_server": 4, "nics_per_server": 4})  # fmt: skip
    spans = of_rank(run).set_index("kind")
    inside, outside = spans.loc["reduce_scatter"], spans.loc["all_reduce"]
    assert outside["start_ns"].tolist() == inside["end_ns"].tolist()
    assert spans.loc["opt", "start_ns"] == outside["end_ns"].max()


def test_zero_bubble_sends_gradients_with_its_weight_passes(simulated):
    run = simulated(dp=2, pp=2, tp=1, schedule="zb-h1", micro_batches=4, steps=1,
                    bucket_params=5_000_000)  # fmt: skip
    spans = of_rank(run)
    last = spans[spans["kind"] == "wgrad"].iloc[-1]
    joined = spans.loc[spans["kind"] == "reduce_scatter", "start_ns"]
    assert len(joined) > 1
    assert joined.between(last["start_ns"], last["end_ns"]).all()


def test_points_come_where_their_compute_is_done():
    half, third = Fraction(1, 2), Fraction(1, 3)
    there = woven(PLAIN, [(half, Await("b")), (Fraction(0), Await("a")), (third, Await("c"))])
    assert there == (
        Await("a"), Compute(third), Await("c"), Compute(half), Await("b"), Compute(Fraction(1)),
    )  # fmt: skip
    twice = woven(there, [(half, Await("d"))])
    assert twice.index(Await("d")) == twice.index(Await("b")) - 1


COMPUTED = {"fwd", "bwd", "wgrad", "opt"}
MESSAGES = {"send_act", "recv_act", "send_grad", "recv_grad"}
LARGE = {"cluster": {"servers": 8}}


def spans_of(folder: Path, **fields: Any) -> pd.DataFrame:
    """True spans of one job, each with the place of its rank."""
    run = simulate_one(folder, **fields)
    return run.truth("spans").merge(run.truth("ranks"), on=["job", "rank"])


JOBS: dict[str, dict[str, Any]] = {
    "pipeline": {"dp": 2, "pp": 2, "tp": 2},
    "fully-sharded": {"dp": 4, "zero_stage": 3},
    "tensor-parallel-across-servers": {"dp": 2, "tp": 16},
    "context-parallel": {"dp": 2, "cp": 4},
    "experts": {"dp": 4, "ep": 2, "tp": 4, "moe": {"experts": 4, "imbalance": 0.4}},
    "evaluation": {"dp": 2, "pp": 2, "evaluation": {"every": 1, "micro_batches": 2}},
}


@pytest.mark.parametrize("name", JOBS)
def test_only_communications_are_named_and_all_of_them(name: str, tmp_path: Path) -> None:
    spans = spans_of(tmp_path, **LARGE, **JOBS[name])
    computed = spans["kind"].isin({*COMPUTED, "eval_fwd"})
    assert spans.loc[computed, "communication"].isna().all()
    assert spans.loc[~computed, "communication"].notna().all()


@pytest.mark.parametrize("name", JOBS)
def test_members_of_a_communication_agree_on_its_kind(name: str, tmp_path: Path) -> None:
    spans = spans_of(tmp_path, **LARGE, **JOBS[name])
    collectives = spans[~spans["kind"].isin(MESSAGES)]
    by = collectives.groupby("communication")
    assert (by[["job", "step", "kind", "end_ns"]].nunique() == 1).all(axis=None)
    assert (by["rank"].nunique() == by.size()).all(), "a rank takes part once"


def test_both_ends_of_a_message_share_its_number(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, dp=2, pp=2, tp=2)
    messages = spans[spans["kind"].isin(MESSAGES)]
    for _, ends in messages.groupby("communication"):
        assert sorted(ends["kind"]) in (["recv_act", "send_act"], ["recv_grad", "send_grad"])
        assert (ends[["dp", "tp", "step", "micro_batch"]].nunique() == 1).all()
        assert set(ends["pp"]) == {0, 1}


def test_groups_of_hybrid_sharding_are_separate_although_one_is_late(tmp_path: Path) -> None:
    slow = {"kind": "slow_gpu", "job": "a", "rank": 0, "factor": 0.5, "from_step": 0}
    spans = spans_of(tmp_path, dp=4, zero_stage=2, hybrid_shards=2, faults=[slow])
    scattered = spans[spans["kind"] == "reduce_scatter"]
    members = set(scattered.groupby("communication")["dp"].agg(frozenset))
    assert members == {frozenset({0, 1}), frozenset({2, 3})}
    across = spans[spans["kind"] == "all_reduce"]
    members = set(across.groupby("communication")["dp"].agg(frozenset))
    assert members == {frozenset({0, 2}), frozenset({1, 3})}
    own = scattered[scattered["dp"].isin({2, 3})]
    others = scattered[scattered["dp"].isin({0, 1})]
    assert not set(own["communication"]) & set(others["communication"])
    assert own["end_ns"].max() < others["end_ns"].max(), "the slow rank delays its own group only"


def test_a_tensor_parallel_group_across_servers_communicates_as_one(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, **LARGE, dp=2, tp=16)
    sums = spans[spans["kind"] == "tp_all_reduce"]
    assert (sums.groupby("communication")["tp"].agg(frozenset) == frozenset(range(16))).all()


def test_saves_and_reads_are_communications_of_one_rank(tmp_path: Path) -> None:
    run = simulate_one(
        tmp_path, dp=2, storage=["s0003"], loading={}, checkpoint={"every": 1, "mode": "async"}
    )
    spans = run.truth("spans")
    stored = spans[spans["kind"].isin({"load", "checkpoint"})]
    assert len(stored)
    assert stored["communication"].is_unique

"""Exchanges inside passes: experts, contexts, tensors, and small reductions."""

from __future__ import annotations

import pandas as pd
import pytest

from tiny import TINY_MODEL

TOKENS = TINY_MODEL["sequence_length"]
ACTIVATIONS = 2 * TOKENS * TINY_MODEL["hidden"]  # bytes of one micro-batch
LAYERS = TINY_MODEL["layers"]


def sent(run, kind):
    pairs = run.truth("pairs")
    return int(pairs.loc[pairs["kind"] == kind, "bytes"].sum())


def records(run, kind):
    """Flow records of one kind of pair; the bytes identify a connection."""
    flows = pd.read_parquet(run.flows).astype({"src": str, "dst": str})
    pairs = run.truth("pairs")
    connection = ["src", "dst", "src_port"]
    total = flows.groupby(connection, as_index=False)["bytes"].sum()
    own = total.merge(pairs[pairs["kind"] == kind], on=["src", "dst", "bytes"])
    assert len(own) == (pairs["kind"] == kind).sum()
    return flows.merge(own[connection], on=connection)


def counted(run, rank=0):
    """How many spans of each kind a rank has."""
    spans = run.truth("spans")
    return spans.loc[spans["rank"] == rank, "kind"].astype(str).value_counts()


MOE = {"experts": 8, "top_k": 2}


def test_tokens_travel_to_experts_and_back_in_every_layer_and_pass(simulated):
    run = simulated(dp=4, ep=4, tp=1, moe=MOE, micro_batches=2, steps=1, placement="spread")
    counts = counted(run)
    assert (counts["dispatch"], counts["combine"]) == (2 * 2 * LAYERS, 2 * 2 * LAYERS)
    # There and back, forward and backward, top-2, of which 3/4 leave the rank.
    expected = 4 * LAYERS * 2 * 2 * 2 * ACTIVATIONS * 2 * 3 / 4
    assert sent(run, "ep") == pytest.approx(expected, rel=1e-6)


def test_balanced_experts_exchange_equal_amounts_and_popular_ones_more(simulated):
    fields = {"dp": 4, "ep": 4, "tp": 1, "micro_batches": 1, "steps": 1, "placement": "spread"}
    even = records(simulated("even", moe=MOE, **fields), "ep")
    assert even["bytes"].nunique() == 1
    run = simulated("uneven", moe={**MOE, "imbalance": 0.5}, **fields)
    uneven = records(run, "ep")
    assert uneven["bytes"].nunique() > 12
    # What goes out in a layer comes back as large: the way back is the way there transposed.
    there = uneven.groupby(["src", "dst"])["bytes"].sum()
    back = uneven.groupby(["dst", "src"])["bytes"].sum()
    assert there.sort_index().tolist() == back.sort_index().tolist()
    # A rank's tokens all go somewhere, its own experts included.
    out = uneven.groupby("src")["bytes"].sum()
    assert (out < 2 * 2 * LAYERS * 2 * ACTIVATIONS).all()


EXPERTS_OF_SERVERS = {
    "dp": 16, "ep": 16, "tp": 1, "micro_batches": 2, "steps": 1,
    "cluster": {"servers": 4, "gpus_per_server": 4, "nics_per_server": 4},
}  # fmt: skip


def test_a_token_crosses_the_network_once_for_each_of_its_servers(simulated):
    """DeepSeek-V3, section 3.2.2: to the GPU of its own position, in FP8; results are bf16."""
    moe = {"experts": 16, "top_k": 4, "servers": 2, "dispatch_bytes": 1}
    run = simulated(moe=moe, **EXPERTS_OF_SERVERS)
    tokens = 16 * 2 * TOKENS * TINY_MODEL["hidden"]
    copies = 2 * 3 / 4  # of two servers, one is the own one in a quarter of the cases
    assert sent(run, "ep") == LAYERS * 2 * (1 + 2) * tokens * copies
    ranks = run.truth("ranks").set_index("address")["gpu"]
    pairs = run.truth("pairs").query("kind == 'ep'")
    assert (pairs["src"].map(ranks) == pairs["dst"].map(ranks)).all()
    assert len(pairs) == 16 * 3


def test_popular_experts_get_more_tokens_over_few_crossings_too(simulated):
    moe = {"experts": 16, "top_k": 4, "servers": 2, "imbalance": 0.5}
    run = simulated(moe=moe, **EXPERTS_OF_SERVERS)
    sizes = records(run, "ep").groupby(["src", "dst"])["bytes"].sum()
    assert sizes.nunique() > len(sizes) / 2
    total = LAYERS * 2 * 2 * 2 * 16 * 2 * TOKENS * TINY_MODEL["hidden"] * 2
    assert 0.5 * total < sizes.sum() < total


def test_passes_beside_each_other_hide_the_exchanges_of_experts(simulated):
    """Where an exchange is shorter than the computation of the other pass."""
    fields = {
        "dp": 2, "ep": 2, "pp": 2, "tp": 1, "moe": MOE, "micro_batches": 16, "steps": 1,
        "placement": "spread", "head_on_last_stage": False,
    }  # fmt: skip

    def took(folder, schedule, nic_gbps):
        cluster = {"servers": 4, "nic_gbps": nic_gbps}
        run = simulated(folder, **fields, schedule=schedule, cluster=cluster)
        passes = run.truth("spans").query("kind in ['fwd', 'bwd', 'wgrad']")
        return passes["end_ns"].max() - passes["start_ns"].min()

    added = {
        schedule: took(f"{schedule}-slow", schedule, 1600) - took(schedule, schedule, 1e6)
        for schedule in ("zb-h1", "dualpipe")
    }
    assert added["dualpipe"] < 0.7 * added["zb-h1"]


def test_a_rank_that_more_tokens_come_to_computes_longer(simulated):
    """In the first layer: from the end of the dispatch to the rank's joining the combine."""
    moe = {**MOE, "imbalance": 0.5}
    fields = {"dp": 4, "ep": 4, "tp": 1, "micro_batches": 1, "steps": 1, "placement": "spread"}
    run = simulated(moe=moe, **fields)
    spans = run.truth("spans").sort_values("start_ns")
    there = spans[spans["kind"] == "dispatch"].groupby("rank")["end_ns"].first()
    back = spans[spans["kind"] == "combine"].groupby("rank")["start_ns"].first()
    # The first 4 x 3 messages are the first dispatch; what a rank keeps is in no flow.
    first = records(run, "ep").sort_values("start_ns").head(12)
    rank = run.truth("ranks").set_index("address")["rank"]
    came = first["bytes"].groupby(first["dst"].map(rank)).sum()
    kept = 2 * ACTIVATIONS - first["bytes"].groupby(first["src"].map(rank)).sum()
    load = (came + kept) / (2 * ACTIVATIONS)
    assert load.sum() == pytest.approx(4, rel=1e-6)
    assert load.max() > 1.2
    hidden = TINY_MODEL["hidden"]
    experts_ns, router_ns = (
        2 * TOKENS * weights / (989e3 * 0.5) for weights in (2 * 8 * hidden**2, 8 * hidden)
    )
    expected = experts_ns * load + router_ns
    assert (back - there).tolist() == pytest.approx(expected.tolist(), rel=1e-4)


def test_popularity_is_drawn_for_its_purpose(simulated):
    moe = {**MOE, "imbalance": 0.5}
    fields = {"dp": 4, "ep": 4, "tp": 1, "placement": "spread", "moe": moe}
    short = records(simulated("short", micro_batches=1, steps=1, **fields), "ep")
    long = records(simulated("long", micro_batches=1, steps=2, **fields), "ep")
    assert sorted(long["bytes"])[: len(short)] != sorted(short["bytes"])
    first = long.sort_values("start_ns").head(len(short))
    assert sorted(first["bytes"]) == sorted(short["bytes"])


def test_expert_gradients_are_reduced_among_holders_of_the_same_experts(simulated):
    run = simulated(dp=4, ep=2, tp=1, moe=MOE, steps=1, placement="spread", bucket_params=10**9)
    ranks = run.truth("ranks").set_index("address")
    assert ranks.sort_values("rank")[["dp", "ep"]].to_numpy().tolist() == [
        [0, 0], [0, 1], [1, 0], [1, 1],
    ]  # fmt: skip
    hidden, ffn = TINY_MODEL["hidden"], 4 * TINY_MODEL["hidden"]
    experts = LAYERS * (8 // 2) * 2 * hidden * ffn  # of one rank
    pairs = run.truth("pairs")
    pairs = pairs[pairs["kind"] == "dp"]
    apart = pairs["src"].map(ranks["ep"]) == pairs["dst"].map(ranks["ep"])
    # Reduce-scattered in fp32 and gathered in bf16: (n - 1) / n of each, n = 2, of 4 ranks.
    assert pairs.loc[apart, "bytes"].sum() == pytest.approx(4 * experts * (4 + 2) / 2, rel=1e-6)
    # One bucket each of what all ranks hold and of a rank's experts.
    counts = counted(run)
    for operation in ("reduce_scatter", "all_gather"):
        assert counts[operation] == counts[f"expert_{operation}"] == 1


def test_experts_are_paid_for_by_those_that_tokens_meet(simulated):
    def forward_ns(folder, **moe):
        spans = simulated(folder, steps=1, moe=moe, head_on_last_stage=False).truth("spans")
        spans = spans[spans["kind"] == "fwd"]
        return int((spans["end_ns"] - spans["start_ns"]).iloc[0])

    one, two = forward_ns("one", experts=8, top_k=1), forward_ns("two", experts=8, top_k=2)
    shared = forward_ns("shared", experts=8, top_k=1, shared=1)
    expert_ns = LAYERS * 2 * TOKENS * 8 * TINY_MODEL["hidden"] ** 2 / (989e3 * 0.5)
    assert two - one == pytest.approx(expert_ns, rel=1e-4)
    assert shared == two
    dense = forward_ns("dense", experts=8, top_k=2, dense_layers=LAYERS)
    half = forward_ns("half", experts=8, top_k=2, dense_layers=LAYERS // 2)
    assert half - dense == pytest.approx((two - dense) / 2, abs=2)


def test_keys_and_values_go_round_once_less_than_there_are_ranks(simulated):
    run = simulated(cp=4, tp=1, micro_batches=2, steps=1, placement="spread")
    assert counted(run)["kv_ring"] == 2 * 2 * LAYERS * 3
    keys_and_values = 2 * ACTIVATIONS // 4  # of a rank's tokens
    # Three sends a layer and micro-batch; backward, their gradients go along.
    assert sent(run, "cp") == 4 * 2 * LAYERS * 3 * (1 + 2) * keys_and_values
    assert set(records(run, "cp")["bytes"]) == {keys_and_values, 2 * keys_and_values}
    ranks = run.truth("ranks").set_index("address")["cp"]
    pairs = run.truth("pairs")
    pairs = pairs[pairs["kind"] == "cp"]
    ahead = (pairs["dst"].map(ranks) - pairs["src"].map(ranks)) % 4
    assert (ahead == 1).all()


def test_the_ring_hides_behind_attention_when_the_network_is_fast(simulated):
    def forward_ns(folder, gbps):
        spans = simulated(folder, cp=2, tp=1, micro_batches=1, steps=1, placement="spread",
                          cluster={"nic_gbps": gbps}).truth("spans")  # fmt: skip
        spans = spans[spans["kind"] == "fwd"]
        return int((spans["end_ns"] - spans["start_ns"]).iloc[0])

    fast, faster, slow = (forward_ns(str(g), g) for g in (1e5, 1e6, 1.0))
    assert fast == faster
    message_ns = 2 * ACTIVATIONS / 2 * 8  # at 1 Gbit/s, a layer
    assert slow > fast
    assert slow == pytest.approx(fast + LAYERS * message_ns, rel=0.05)


def test_context_parallel_ranks_share_gradients_with_replicas(simulated):
    run = simulated(dp=2, cp=2, tp=1, steps=1, placement="spread")
    pairs = run.truth("pairs")
    assert len(pairs[pairs["kind"] == "dp"]) == 4  # a ring of dp x cp
    ranks = run.truth("ranks").sort_values("rank")
    assert ranks[["dp", "cp"]].to_numpy().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_tensor_parallelism_between_servers_is_seen(simulated):
    cluster = {"servers": 2, "gpus_per_server": 4, "nics_per_server": 4}
    run = simulated(tp=8, micro_batches=2, steps=1, cluster=cluster)
    assert counted(run)["tp_all_reduce"] == 2 * 2 * 2 * LAYERS
    # Two servers: each of the rings crosses once each way, with 2 (n - 1) / n of the bytes.
    each = 2 * 7 / 8 * ACTIVATIONS
    assert sent(run, "tp") == pytest.approx(2 * each * 2 * 2 * 2 * LAYERS, rel=1e-3)


def test_sequence_parallelism_gathers_and_scatters_instead(simulated):
    cluster = {"servers": 2, "gpus_per_server": 4, "nics_per_server": 4}
    run = simulated(tp=8, micro_batches=1, steps=1, cluster=cluster, sequence_parallel=True)
    counts = counted(run)
    assert "tp_all_reduce" not in counts
    # Forward and backward, two halves of a layer; backward gathers the input once more.
    assert (counts["tp_all_gather"], counts["tp_reduce_scatter"]) == (6 * LAYERS, 4 * LAYERS)


def test_tensor_parallelism_inside_a_server_is_not_seen(simulated):
    run = simulated(tp=8, dp=2, steps=1)
    assert sent(run, "tp") == 0
    assert "tp_all_reduce" not in counted(run)


def test_first_and_last_stage_add_up_the_embedding_they_share(simulated):
    model = {**TINY_MODEL, "tied_embeddings": True}
    run = simulated(pp=4, tp=8, steps=3, sync_embeddings=True, model=model)
    ranks = run.truth("ranks").set_index("address")["pp"]
    pairs = run.truth("pairs")
    pairs = pairs[pairs["kind"] == "other"]
    assert set(zip(pairs["src"].map(ranks), pairs["dst"].map(ranks), strict=True)) == {
        (0, 3), (3, 0),
    }  # fmt: skip
    embedding = 4 * TINY_MODEL["vocab"] * TINY_MODEL["hidden"]
    assert pairs["bytes"].sum() == pytest.approx(3 * 2 * embedding, rel=1e-5)


def test_norm_and_loss_are_a_few_bytes_before_the_update(simulated):
    run = simulated(pp=2, dp=2, tp=8, steps=2, gradient_norm=True, loss_reduce=True)
    flows, pairs = pd.read_parquet(run.flows), run.truth("pairs")
    tiny = flows[flows["bytes"] < 100]
    assert len(tiny)
    assert tiny["bytes"].sum() == pairs.loc[pairs["kind"] == "other", "bytes"].sum()
    spans = run.truth("spans")
    spans = spans[spans["rank"] == run.truth("ranks")["rank"].max()]
    for _, step in spans.astype({"kind": str}).groupby("step"):
        of = step.groupby("kind")
        assert of.size()["other_all_reduce"] == 2
        reduced = of["end_ns"].max()
        assert reduced["reduce_scatter"] <= of["start_ns"].min()["other_all_reduce"]
        assert reduced["other_all_reduce"] == of["start_ns"].min()["opt"]

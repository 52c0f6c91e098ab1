"""Socket libraries: rings by segments, messages by agreement, and the words they cost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from prism_sim.toolkit import Job
from prism_sim.training.collectives.segmented import follow
from prism_sim.training.costs import pipeline_message_bytes
from tiny import TINY_MODEL, simulate_one

GLOO = {"control_bytes": 48}
TCP = {"kind": "headers", "mtu_payload_bytes": 1448, "header_bytes": 52, "transport": "tcp"}
ONE_GPU = {"gpus_per_server": 1, "nics_per_server": 1}


def ran(ready, segment, segments, handling=0.0, rounds=2, latency=0.0):
    hops = len(ready)
    full = np.full((hops, segments), float(handling))
    each = np.full(hops, float(segment))
    return follow(ready, each, np.full(hops, float(latency)), full, rounds)


def test_without_handling_a_ring_never_rests():
    c = ran([0, 0, 0, 0], segment=10, segments=12)
    assert (c.begin == np.arange(12) * 10).all()
    assert c.done_ns == 120


def test_two_ranks_rest_between_the_rounds_only():
    """Two segments a round: handling of 3 shows once in the middle and once at the end."""
    c = ran([0, 0], segment=10, segments=4, handling=3)
    assert c.begin[0].tolist() == [0, 10, 23, 33]
    assert c.turn[0].tolist() == [0, 0, 23, 23]
    assert c.done_ns == 46


def test_handling_that_takes_longer_than_a_segment_shows_everywhere():
    """Segment j waits for segment j - 2, which ends at 10 and is handled at 25."""
    c = ran([0, 0, 0], segment=10, segments=4, handling=15, rounds=1)
    assert c.begin[0].tolist() == [0, 10, 25, 40]


def test_a_late_rank_delays_both_its_hops():
    """Rank 1 comes at 100: rank 0 cannot send to it, and rank 2 receives nothing from it."""
    c = ran([0, 100, 0, 0], segment=10, segments=6, rounds=1)
    assert c.turn[:, 0].tolist() == [0, 100, 0, 0]
    assert c.begin[:, 0].tolist() == [100, 100, 0, 0]
    # hop 2 has the two segments that need nobody else; the third needs what rank 1 sends
    assert c.begin[2, :3].tolist() == [0, 10, 110]


@pytest.fixture(scope="module")
def all_reduce(tmp_path_factory):
    """Four ranks on four servers, one all-reduce a step, two steps."""
    run = simulate_one(
        tmp_path_factory.mktemp("ring"), dp=4, micro_batches=1, zero_stage=0, library=GLOO,
        overlap_gradients=False, cluster=ONE_GPU | {"servers": 4}, collector={"effects": [TCP]},
    )  # fmt: skip
    return run, pd.read_parquet(run.flows)


def test_bytes_of_a_ring_are_gradients_headers_and_words(all_reduce):
    """2 (n - 1) / n of the gradient, and 48 bytes per segment: twice forward, once back."""
    _, flows = all_reduce
    job = Job(name="a", model=TINY_MODEL, dp=4, micro_batches=1, steps=2)
    gradient = 4 * job.model.total_parameters
    segments = 2 * 3 * -(-gradient // 4 // 2**20)  # of at most 1 MiB, two rounds of three steps
    sent = flows.groupby(["src", "dst"])["payload"].sum().to_numpy() / 2
    data, words = sent[sent > 1e6], sent[sent < 1e6]
    assert len(data) == len(words) == 4
    assert (words == 48 * segments).all()
    assert data == pytest.approx(1.5 * gradient + 96 * segments, rel=1e-6)


@pytest.mark.parametrize("layout", [{"dp": 4, "zero_stage": 0}, {"dp": 2, "pp": 2}])
def test_the_truth_counts_every_control_message(tmp_path, layout):
    """Control messages have both directions, also with data; acknowledgements have no payload."""
    run = simulate_one(
        tmp_path, library=GLOO, micro_batches=2, steps=1, cluster=ONE_GPU | {"servers": 4},
        collector={"effects": [TCP, {"kind": "acknowledgements"}]}, **layout,
    )  # fmt: skip
    flows = pd.read_parquet(run.flows).astype({"src": str, "dst": str})
    recorded = flows.groupby(["src", "dst"])["payload"].sum()
    true = run.truth("pairs").groupby(["src", "dst"])["bytes"].sum()
    assert recorded.to_dict() == true.to_dict()
    assert (recorded > 0).all()


def test_a_rank_passes_to_the_one_before_it(all_reduce):
    run, flows = all_reduce
    rank = run.truth("ranks").set_index("address")["rank"]
    data = flows[flows["payload"] > 1000].astype({"src": str, "dst": str})
    assert set(zip(data["src"].map(rank), data["dst"].map(rank), strict=True)) == {
        (0, 3), (1, 0), (2, 1), (3, 2)
    }  # fmt: skip


def test_both_directions_share_one_connection(all_reduce):
    _, flows = all_reduce
    ends = flows[["src", "src_port", "dst", "dst_port"]].astype({"src": str, "dst": str})
    there = set(ends.itertuples(index=False, name=None))
    assert {(c, d, a, b) for a, b, c, d in there} == there
    assert len(there) == 8


def pipeline(folder, **fields):
    run = simulate_one(
        folder, pp=2, micro_batches=4, steps=1, cluster=ONE_GPU | {"servers": 2},
        collector={"effects": [TCP]}, head_on_last_stage=False, **fields,
    )  # fmt: skip
    flows = pd.read_parquet(run.flows).astype({"src": str, "dst": str})
    return run, flows


def test_an_activation_waits_for_its_receiver(tmp_path):
    """In 1F1B the last stage requests micro-batch 1 only after micro-batch 0.

    The request comes after the gradient that the stage sends first: 2 MiB and a header at 50 bytes
    per nanosecond, over two links of 500 ns.
    """
    run, flows = pipeline(tmp_path, library=GLOO)
    spans = run.truth("spans").set_index(["rank", "micro_batch", "kind"])
    first, _ = run.truth("ranks")["address"]
    data = flows[(flows["payload"] > 1000) & (flows["src"] == first)].sort_values("start_ns")
    begins = data["start_ns"].to_numpy() - run_epoch(run)
    asked = spans.xs(1, level="rank").xs("bwd", level="kind")["end_ns"].to_numpy() - run_epoch(run)
    offered = spans.xs(0, level="rank").xs("fwd", level="kind")["end_ns"].to_numpy()
    offered = offered - run_epoch(run)
    assert begins[0] == offered[0]
    behind_ns = (2 * 1024 * 1024 + 48) // 50 + 2 * 500
    assert (asked[:3] > offered[1:]).all()
    assert begins[1:].tolist() == (asked[:3] + behind_ns).tolist()


def test_a_receive_posted_early_makes_no_rank_wait(tmp_path):
    run, flows = pipeline(tmp_path)
    first = run.truth("ranks")["address"][0]
    spans = run.truth("spans")
    offered = spans[(spans["rank"] == 0) & (spans["kind"] == "fwd")]["end_ns"].to_numpy()
    begins = flows[flows["src"] == first].sort_values("start_ns")["start_ns"].to_numpy()
    assert begins.tolist() == offered.tolist()


def test_a_message_costs_three_words(tmp_path):
    """A header and "ready" with the data, "ready" in the other direction: 144 bytes, as in gloo."""
    _, flows = pipeline(tmp_path, library=GLOO, activation_bytes=4)
    job = Job(name="a", model=TINY_MODEL, pp=2, micro_batches=4, steps=1, activation_bytes=4)
    size = pipeline_message_bytes(job)
    assert size == 4 * 1024 * 1024
    assert flows.groupby("src")["payload"].sum().tolist() == [4 * (size + 144)] * 2


def test_collectives_run_side_by_side(tmp_path):
    """Two buckets of one group, one after another or both at once."""
    spans = {}
    for number in (1, 2):
        run = simulate_one(
            tmp_path / str(number), dp=2, micro_batches=1, steps=1, zero_stage=0,
            bucket_params=40_000_000, overlap_gradients=False, cluster=ONE_GPU | {"servers": 2},
            library=GLOO | {"side_by_side": number},
        )  # fmt: skip
        truth = run.truth("spans")
        spans[number] = truth[(truth["kind"] == "all_reduce") & (truth["rank"] == 0)]
    alone, shared = spans[1].sort_values("end_ns"), spans[2].sort_values("end_ns")
    assert len(alone) == len(shared) > 1
    assert shared["end_ns"].max() == pytest.approx(alone["end_ns"].max(), abs=2e5)
    since = alone["start_ns"].min()
    first_alone = alone["end_ns"].iloc[0] - since
    assert shared["end_ns"].iloc[0] - since > 1.5 * first_alone


def run_epoch(run):
    return run.read_json(run.manifest)["scenario"]["epoch_ns"]


SHARDED = GLOO | {"gather_to": "next", "reduce_scatter_as": "all_reduce"}


def sharded(folder, library, **fields):
    """Data of each pair of ranks in one step of ZeRO-3 on four servers, and the model's size."""
    run = simulate_one(
        folder, dp=4, micro_batches=1, steps=1, zero_stage=3, parameter_bytes=4, library=library,
        cluster=ONE_GPU | {"servers": 4}, collector={"effects": [TCP]}, **fields,
    )  # fmt: skip
    rank = run.truth("ranks").set_index("address")["rank"]
    flows = pd.read_parquet(run.flows).astype({"src": str, "dst": str})
    sent = flows[flows["payload"] > 1000].groupby(["src", "dst"])["payload"].sum()
    job = Job(name="a", model=TINY_MODEL, dp=4, micro_batches=1, steps=1)
    pairs = {(int(rank[src]), int(rank[dst])): size for (src, dst), size in sent.items()}
    return run, pairs, job.model.total_parameters


def test_pytorch_on_gloo_gathers_forwards_and_reduces_backwards(tmp_path):
    """Two gathers to the next rank, one whole all-reduce to the previous: each 3/2 of 4 bytes."""
    _, pairs, parameters = sharded(tmp_path, SHARDED)
    expected = {(r, (r + way) % 4) for r in range(4) for way in (1, -1)}
    assert set(pairs) == expected
    for size in pairs.values():
        assert size == pytest.approx(2 * 3 / 4 * 4 * parameters, rel=1e-3)


def test_by_default_all_goes_to_the_previous_rank_once(tmp_path):
    """Two gathers and one reduce-scatter: 3/4 of 4 bytes each."""
    _, pairs, parameters = sharded(tmp_path, GLOO)
    assert set(pairs) == {(r, (r - 1) % 4) for r in range(4)}
    for size in pairs.values():
        assert size == pytest.approx(3 * 3 / 4 * 4 * parameters, rel=1e-3)


def test_a_rank_that_waits_computes_nothing_during_a_collective(tmp_path):
    """The passes then last as long as their computation and their collectives together."""
    wait = {"data_parallel": {"kind": "zero3", "waits": True}}
    passes = {}
    for name, fields in (("waits", wait), ("overlaps", {})):
        run, _, _ = sharded(tmp_path / name, SHARDED, **fields)
        spans = run.truth("spans").query("rank == 0")
        took = spans["end_ns"] - spans["start_ns"]
        both = spans["kind"].isin(["fwd", "bwd"])
        passes[name] = took[both].sum()
        if name == "waits":
            shared = took[spans["kind"].isin(["all_gather", "reduce_scatter"])].sum()
    alone = simulate_one(
        tmp_path / "alone", dp=1, micro_batches=1, steps=1, cluster=ONE_GPU | {"servers": 1}
    )
    spans = alone.truth("spans")
    compute = (spans["end_ns"] - spans["start_ns"])[spans["kind"].isin(["fwd", "bwd"])].sum()
    assert passes["waits"] == pytest.approx(compute + shared, rel=1e-3)
    assert passes["overlaps"] < passes["waits"]


def test_tensor_parallel_sums_use_the_library(tmp_path):
    """Each all-reduce has two rounds of three steps, of two segments with a word back each."""
    run = simulate_one(
        tmp_path, tp=4, micro_batches=1, steps=1, library=GLOO, gradient_norm=False,
        cluster=ONE_GPU | {"servers": 4}, collector={"effects": [TCP]},
    )  # fmt: skip
    flows = pd.read_parquet(run.flows).astype({"src": str, "dst": str})
    words = flows[flows["payload"] <= 1000].groupby(["src", "dst"])["payload"].sum()
    spans = run.truth("spans").query("kind == 'tp_all_reduce'")
    calls = spans.groupby("rank").size().unique().tolist()
    assert calls == [2 * 2 * TINY_MODEL["layers"]]  # after each half of a layer, in both passes
    assert len(words) == 4
    assert (words % 48 == 0).all()
    assert (words >= 48 * 12 * calls[0]).all()

"""Pipeline schedules as timelines: the work of each stage and its waits."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_sim.training.schedules import BACKWARD, FORWARD, SCHEDULES, WEIGHTS, WHOLE, Place

NO_NETWORK = {"nic_gbps": 1e9, "fabric": {"hop_latency_ns": 0.0}}


def play(name, p, m, v=1, times=(1, 1, 1)):
    """Run a schedule without any network; returns (end, [(start, "F0"), ...] of each stage).

    ``times`` are those of a forward, backward and weight-gradient pass through one chunk. Passes
    beside each other begin and end together.
    """
    times = (*times, times[BACKWARD] + times[WEIGHTS])
    schedule = SCHEDULES[name](kind=name)
    places = [Place(i, p, m, v) for i in range(p)]
    order = [schedule.work(place) for place in places]
    end, clock, logs = {}, [0] * p, [[] for _ in range(p)]
    while any(order):
        moved = False
        for i in range(p):
            while order[i]:
                works = order[i][: 1 + order[i][0].beside]
                ready = [_ready(schedule, work, places[i], end) for work in works]
                if None in ready:
                    break
                del order[i][: len(works)]
                start = max(clock[i], *ready)
                clock[i] = start + sum(times[w.kind] for w in works)
                for work in works:
                    kind = BACKWARD if work.kind == WHOLE else work.kind
                    end[kind, work.micro_batch, schedule.part_of(i, work.chunk, p)] = clock[i]
                    chunk = f".{work.chunk}" if schedule.stage_chunks(v) > 1 else ""
                    logs[i].append((start, f"{'FBWB'[work.kind]}{work.micro_batch}{chunk}"))
                moved = True
        assert moved, "every stage waits for another"
    return max(clock), logs


def _ready(schedule, work, place, end):
    """Earliest begin of ``work`` with respect to messages; None if not yet known."""
    mb, parts = work.micro_batch, schedule.parts(place.stages, place.chunks)
    part = schedule.part_of(place.stage, work.chunk, place.stages)
    if work.kind == FORWARD:
        return 0 if part == 0 else end.get((FORWARD, mb, part - 1))
    if work.kind == WEIGHTS:
        return end.get((BACKWARD, mb, part))
    return end.get((FORWARD, mb, part) if part == parts - 1 else (BACKWARD, mb, part + 1))


def test_gpipe_runs_all_forwards_first():
    _, (first, second) = play("gpipe", 2, 3, times=(1, 2, 0))
    assert first == [(0, "F0"), (1, "F1"), (2, "F2"), (6, "B2"), (8, "B1"), (10, "B0")]
    assert second == [(1, "F0"), (2, "F1"), (3, "F2"), (4, "B2"), (6, "B1"), (8, "B0")]


def test_1f1b_alternates_after_its_warm_up():
    _, (first, second) = play("1f1b", 2, 3, times=(1, 2, 0))
    assert first == [(0, "F0"), (1, "F1"), (4, "B0"), (6, "F2"), (7, "B1"), (10, "B2")]
    assert second == [(1, "F0"), (2, "B0"), (4, "F1"), (5, "B1"), (7, "F2"), (8, "B2")]


def test_interleaving_follows_figure_4_of_megatron():
    """Four devices, eight micro-batches, two chunks: the work up to the first backward pass."""
    _, logs = play("interleaved", 4, 8, 2)
    until = [[what for _, what in log][: 2 * (3 - i) + 4 + 2] for i, log in enumerate(logs)]
    both = ["F0.0", "F1.0", "F2.0", "F3.0", "F0.1", "F1.1", "F2.1", "F3.1"]
    assert until[0] == [*both, "F4.0", "F5.0", "F6.0", "B0.1"]
    assert until[1] == [*both, "F4.0", "B0.1"]
    assert until[2] == [*both[:7], "B0.1"]
    assert until[3] == [*both[:5], "B0.1"]


def test_zb_h1_fills_the_cool_down_with_weight_gradients():
    _, logs = play("zb-h1", 3, 4)
    assert logs[2] == [
        (2, "F0"), (3, "B0"), (4, "F1"), (5, "B1"), (6, "F2"), (7, "B2"), (8, "W0"),
        (9, "F3"), (10, "B3"), (11, "W1"), (12, "W2"), (13, "W3"),
    ]  # fmt: skip
    first = [what for _, what in logs[0]]
    assert first == ["F0", "F1", "F2", "B0", "W0", "F3", "B1", "W1", "B2", "W2", "B3", "W3"]


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 4), (4, 8), (8, 16)])
def test_bubbles_are_the_published_fractions(p, m):
    for name in ("gpipe", "1f1b"):
        took, _ = play(name, p, m, times=(1, 2, 0))
        assert (took - 3 * m) / (3 * m) == pytest.approx((p - 1) / m)
    for v in (2, 3):
        took, _ = play("interleaved", p, m, v, times=(1, 2, 0))
        assert (took - 3 * m * v) / (3 * m * v) == pytest.approx((p - 1) / (v * m))
    whole, _ = play("1f1b", p, m, times=(1, 2, 0))
    split, _ = play("zb-h1", p, m, times=(1, 1, 1))
    assert (split - 3 * m) == pytest.approx((whole - 3 * m) / 3)


DUAL = ("dualpipe", "dualpipev")


@given(st.sampled_from(list(SCHEDULES)), st.integers(2, 5), st.integers(1, 4), st.integers(1, 3))
def test_every_pass_is_done_once_and_none_waits_for_ever(name, p, groups, v):
    v = v if name == "interleaved" else 1
    p = 2 * p if name in DUAL else p
    m = groups * p * (2 if name in DUAL else 1)
    schedule = SCHEDULES[name](kind=name)
    _, logs = play(name, p, m, v)
    whole = {
        kind: {(mb, part) for mb in range(m) for part in range(schedule.parts(p, v))}
        for kind in "FB"
    }
    done = {kind: [] for kind in "FBW"}
    for stage, log in enumerate(logs):
        for _, what in log:
            mb, _, chunk = what[1:].partition(".")
            done[what[0]].append((int(mb), schedule.part_of(stage, int(chunk or 0), p)))
    assert {kind: set(done[kind]) for kind in "FB"} == whole
    assert all(len(done[kind]) == len(whole[kind]) for kind in "FB")


@pytest.mark.parametrize(("name", "p", "m"), [("dualpipe", 8, 20), ("dualpipev", 4, 10)])
@pytest.mark.parametrize("unit", [1, 5])
def test_the_bubble_of_dual_pipe_is_that_of_its_authors(name, p, m, unit):
    """README of deepseek-ai/DualPipe: (PP/2 - 1) (F&B + B - 3W), PP stages of the whole way."""
    way = p if name == "dualpipe" else 2 * p
    busy = m * 3 * unit * (1 if name == "dualpipe" else 2)
    bubble = (way // 2 - 1) * (3 + 2 - 3) * unit
    assert play(name, p, m, times=(unit, unit, unit))[0] == busy + bubble


def test_each_part_of_dual_pipe_is_on_two_stages_and_both_directions_use_one():
    schedule, place = SCHEDULES["dualpipe"](kind="dualpipe"), Place(0, 4, 8)
    held = [{schedule.part_of(stage, chunk, 4) for chunk in (0, 1)} for stage in range(4)]
    assert held == [{0, 3}, {1, 2}, {1, 2}, {0, 3}]
    ways = [[schedule.holder(part, mb, place)[0] for part in range(4)] for mb in (0, 4)]
    assert ways == [[0, 1, 2, 3], [3, 2, 1, 0]]
    assert [schedule.alike(stage, 4) for stage in range(4)] == [(0, 3), (1, 2), (1, 2), (0, 3)]


@pytest.mark.parametrize("name", ["1f1b", "zb-h1"])
def test_the_activations_of_a_stage_are_at_most_its_distance_from_the_end(name):
    for i, log in enumerate(play(name, 4, 8)[1]):
        held = peak = 0
        for _, what in log:
            held += {"F": 1, "B": -1, "W": 0}[what[0]]
            peak = max(peak, held)
        assert peak == 4 - i


@pytest.mark.parametrize(
    ("schedule", "chunks", "bubble"),
    [("gpipe", 1, 3 / 4), ("1f1b", 1, 3 / 4), ("interleaved", 2, 3 / 8)],
)
def test_simulated_pipelines_have_the_bubble_of_their_schedule(simulated, schedule, chunks, bubble):
    run = simulated(
        pp=4, tp=8, micro_batches=4, schedule=schedule, chunks=chunks, steps=1,
        cluster={"servers": 4, **NO_NETWORK}, head_on_last_stage=False,
    )  # fmt: skip
    spans = run.truth("spans")
    spans = spans[spans["kind"].isin(["fwd", "bwd"])]
    busy = (spans["end_ns"] - spans["start_ns"])[spans["rank"] == 0].sum()
    took = spans["end_ns"].max() - spans["start_ns"].min()
    assert took / busy == pytest.approx(1 + bubble, rel=1e-3)


@pytest.mark.parametrize("name", DUAL)
def test_simulated_dual_pipes_take_the_time_of_their_schedule(simulated, name):
    run = simulated(
        pp=4, tp=8, micro_batches=8, schedule=name, steps=1, head_on_last_stage=False,
        cluster={"servers": 4, **NO_NETWORK},
        model={"layers": 8, "hidden": 256, "heads": 8, "vocab": 999, "sequence_length": 128},
    )  # fmt: skip
    spans = run.truth("spans").query("kind in ['fwd', 'bwd', 'wgrad']")
    length = (spans["end_ns"] - spans["start_ns"]).groupby(spans["kind"].astype(str)).min()
    took = spans["end_ns"].max() - spans["start_ns"].min()
    ideal, _ = play(name, 4, 8, times=tuple(length[["fwd", "bwd", "wgrad"]]))
    assert took == pytest.approx(ideal, rel=1e-3)


def test_simulated_zero_bubble_ends_earlier_and_computes_as_much(simulated):
    fields = {
        "pp": 4, "tp": 8, "micro_batches": 8, "steps": 1, "head_on_last_stage": False,
        "cluster": {"servers": 4, **NO_NETWORK},
    }  # fmt: skip

    def bubble_and_busy(schedule):
        spans = simulated(schedule, schedule=schedule, **fields).truth("spans")
        spans = spans[spans["kind"].isin(["fwd", "bwd", "wgrad"])]
        busy = (spans["end_ns"] - spans["start_ns"]).groupby(spans["rank"]).sum()
        return spans["end_ns"].max() - spans["start_ns"].min() - busy.iloc[0], busy, spans

    whole, busy, _ = bubble_and_busy("1f1b")
    split, same, spans = bubble_and_busy("zb-h1")
    assert same.to_numpy() == pytest.approx(busy.to_numpy(), rel=1e-5)
    length = (spans["end_ns"] - spans["start_ns"]).groupby(spans["kind"]).first()
    stretch = length["fwd"] + length["bwd"] - length["wgrad"]
    assert split == pytest.approx(3 * stretch, rel=1e-3)
    assert split / whole == pytest.approx(stretch / (length.sum()), rel=1e-3)


def test_interleaved_activations_go_round_from_the_last_stage_to_the_first(simulated):
    run = simulated(pp=3, tp=8, micro_batches=3, schedule="interleaved", chunks=2, steps=1,
                    model={"layers": 6, "hidden": 256, "heads": 8, "vocab": 999,
                           "sequence_length": 128})  # fmt: skip
    stage = run.truth("ranks").set_index("address")["pp"]
    pairs = run.truth("pairs")
    pairs["way"] = list(zip(pairs["src"].map(stage), pairs["dst"].map(stage), strict=True))
    message = 2 * 128 * 256  # bytes of a micro-batch's activations, over all ranks of tp
    sent = pairs.groupby("way")["bytes"].sum() / (message * 3)
    # A boundary of two neighbours is crossed twice each way, the way round once.
    assert sent.to_dict() == {
        (0, 1): 2, (1, 2): 2, (1, 0): 2, (2, 1): 2, (2, 0): 1, (0, 2): 1,
    }  # fmt: skip


P, M = 4, 8


@pytest.mark.parametrize(
    ("schedule", "chunks", "ahead"),
    [
        ("gpipe", 1, [M, M, M]),  # all forwards first
        ("1f1b", 1, [P - i for i in range(P - 1)]),  # one more than its warm-up of p - i - 1
        ("zb-h1", 1, [P - i for i in range(P - 1)]),  # as much memory as 1F1B
        # Megatron's warm-up of 2 (p - i - 1) + (v - 1) p forwards, and one more
        ("interleaved", 2, [2 * (P - i - 1) + P + 1 for i in range(P)]),
    ],
)
def test_flows_of_each_schedule_come_in_its_order(simulated, schedule, chunks, ahead):
    """On the wire: activations that a stage sends before it receives its first gradient."""
    run = simulated(
        pp=P, tp=8, micro_batches=M, schedule=schedule, chunks=chunks, steps=1,
        head_on_last_stage=False,
    )  # fmt: skip
    rank = run.truth("ranks").query("tp == 0").set_index("pp")["address"]
    flows = pd.read_parquet(run.flows).astype({"src": str, "dst": str}).sort_values("start_ns")
    for i, count in enumerate(ahead):
        there, back = (
            flows[(flows["src"] == a) & (flows["dst"] == b)]
            for a, b in ((rank[i], rank[(i + 1) % P]), (rank[(i + 1) % P], rank[i]))
        )
        if i == P - 1:  # from here activations go round to the first stage's second chunk
            assert len(there) == len(back) == M
        else:
            assert len(there) == len(back) == M * chunks
            assert (there["start_ns"] < back["end_ns"].iloc[0]).sum() == count


def test_stages_compute_in_proportion_to_their_layers(simulated):
    run = simulated(
        pp=2, tp=8, steps=1, stage_layers=(6, 2), stage_factors=(1.0, 1.5),
        head_on_last_stage=False, cluster=NO_NETWORK,
    )  # fmt: skip
    spans = run.truth("spans").merge(run.truth("ranks")[["rank", "pp"]], on="rank")
    length = (spans["end_ns"] - spans["start_ns"]).groupby([spans["kind"], spans["pp"]]).first()
    for kind in ("fwd", "bwd"):
        assert length[kind][0] == pytest.approx(length[kind][1] * 6 / 2 / 1.5, rel=1e-5)


def test_embedding_and_head_make_the_ends_longer(simulated):
    def forward_ns(folder, **fields):
        run = simulated(folder, pp=4, tp=8, steps=1, cluster={"servers": 4}, **fields)
        spans = run.truth("spans").merge(run.truth("ranks")[["rank", "pp"]], on="rank")
        spans = spans[spans["kind"] == "fwd"]
        return (spans["end_ns"] - spans["start_ns"]).groupby(spans["pp"]).first()

    plain = forward_ns("plain", head_on_last_stage=False)
    ends = forward_ns("ends", embedding_on_first_stage=True)
    assert plain.nunique() == 1
    assert (ends[1], ends[2]) == (plain[1], plain[2])
    memory_bytes = 2 * 2 * 1024 * 1024 / 8  # read and written, bf16, a token's width, of 8 ranks
    assert ends[0] - plain[0] == pytest.approx(memory_bytes / 3350, abs=1)
    head_flops = 2 * 1024 * 1024 * 32_000
    assert ends[3] - plain[3] == pytest.approx(head_flops / (989e3 * 0.5 * 8), abs=1)


def test_the_ends_of_a_pipeline_may_have_only_embedding_and_head(simulated):
    """Llama 3 405B takes a layer off both ends: the first part only looks tokens up."""
    run = simulated(
        pp=2, chunks=3, schedule="interleaved", tp=8, micro_batches=2, steps=1,
        stage_layers=(0, 2, 2, 2, 2, 0), cluster={"servers": 2},
    )  # fmt: skip
    spans = run.truth("spans")
    first = spans[(spans["rank"] == 0) & (spans["kind"] == "fwd")].sort_values("start_ns")
    took = (first["end_ns"] - first["start_ns"]).tolist()
    # Stage 0 holds parts 0, 2 and 4, each gone through by both micro-batches in turn.
    assert took[:2] == [0, 0]
    assert took[2] > 0
    assert len(set(took[2:])) == 1

"""The trace: well-formed Trace Event JSON, nested slices, true and inferred work."""

import itertools
import json
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_sim.render.trace import render_trace
from prism_sim.render.trace.tracks import lanes


def load(run, **options):
    render_trace(run, **options)
    return json.loads(run.trace.read_text())


def names(trace, kind):
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "M" and event["name"] == kind
    }


def slices(trace):
    """The slices of ranks; those of the clock have no category."""
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and "cat" in event]


def process(trace, name):
    """The number of the process ``name``."""
    return next(pid for (pid, _), text in names(trace, "process_name").items() if text == name)


def test_every_event_has_the_form_of_the_format(run):
    for event in load(run)["traceEvents"]:
        assert event["ph"] in {"M", "X", "b", "e", "i", "C", "s", "f"}
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] != "M":
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] in {"b", "e", "s", "f"}:
            assert {"cat", "id"} <= event.keys()
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())


def test_truth_and_reconstruction_are_side_by_side(run):
    named = names(load(run), "process_name")
    assert [named[key] for key in sorted(named)] == [
        "job A: truth",
        "job A: rebuilt from flows (job0)",
        "job B: truth",
        "job B: rebuilt from flows (job1)",
        "faults and findings",
        "counters",
        "clock (UTC)",
        "about this trace",
    ]


def test_every_slice_is_on_a_named_track(run):
    trace = load(run)
    tracks = names(trace, "thread_name")
    assert {(event["pid"], event["tid"]) for event in slices(trace)} <= set(tracks)
    assert tracks[1, 1] == "rank 0, 10.0.0.0 steps"
    assert len(set(tracks.values())) == len(tracks)


def test_slices_of_a_track_nest(run):
    """Also where they overlap: A's all-reduces run 750-850 and 800-950."""
    tracks = defaultdict(list)
    for event in slices(load(run)):
        start = round(event["ts"] * 1000)
        tracks[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000)))
    for track in tracks.values():
        around = []
        for start, end in sorted(track, key=lambda part: (part[0], -part[1])):
            while around and around[-1] <= start:
                around.pop()
            assert not around or end <= around[-1]
            around.append(end)


def test_times_are_microseconds_from_the_first_event(run):
    first = [event for event in slices(load(run)) if event["pid"] == 1 and event["tid"] == 1]
    assert [(event["name"], event["ts"], event["dur"]) for event in first[:2]] == [
        ("step 0", 0.0, 1e6),
        ("step 1", 1e6, 1e6),
    ]


def test_spans_have_their_kind_and_micro_batch(run):
    trace = load(run)
    tracks = names(trace, "thread_name")
    compute = next(key for key, name in tracks.items() if name == "rank 0, 10.0.0.0 compute")
    mine = [event for event in slices(trace) if (event["pid"], event["tid"]) == compute]
    assert [event["name"] for event in mine[:3]] == ["fwd 0", "bwd 0", "opt"]
    assert mine[3]["args"] == {"step": 1}


def test_overlapping_collectives_take_a_further_track(run):
    tracks = names(load(run), "thread_name").values()
    assert {"rank 0, 10.0.0.0 dp", "rank 0, 10.0.0.0 dp 2"} <= set(tracks)
    assert "rank 0, 10.0.0.4 dp 2" not in tracks


def test_faults_and_findings_have_windows(run):
    events = load(run)["traceEvents"]
    begun = {event["id"]: event for event in events if event["ph"] == "b"}
    ended = {event["id"]: event["ts"] for event in events if event["ph"] == "e"}
    assert begun["fault-0"]["name"] == "fault: slow_gpu 10.0.0.2"
    assert (begun["fault-0"]["ts"], ended["fault-0"]) == (3e6, 5e6)
    assert begun["finding-7"]["args"]["confidence"] == "0.9"
    instants = [event["ts"] for event in events if event["ph"] == "i"]
    assert sorted(instants) == [0.0, 3e6]


def test_a_large_run_is_cut_to_whole_ranks_with_the_affected_pipeline_first(run):
    """The fault affects rank 2, in one pipeline with rank 0."""
    whole = load(run)
    assert whole["otherData"]["ranks_shown"] == whole["otherData"]["ranks"] == 6
    cut = load(run, max_events=len(slices(whole)) // 2)
    assert cut["otherData"]["ranks_shown"] == 2
    tracks = [name for (pid, _), name in names(cut, "thread_name").items() if pid == 1]
    assert {name.split(",")[0] for name in tracks if "steps" not in name} == {"rank 0", "rank 2"}
    assert {name.split(",")[0] for name in tracks} == {f"rank {rank}" for rank in range(4)}
    counts = [len([e for e in slices(trace) if e["pid"] == 1]) for trace in (cut, whole)]
    assert counts[0] < counts[1]
    assert load(run, max_events=1)["otherData"]["ranks_shown"] == 1


def test_ranks_that_are_left_out_are_named(run):
    whole = load(run)
    assert whole["otherData"]["only_steps"] == whole["otherData"]["omitted"] == []
    cut = load(run, max_events=len(slices(whole)) // 2)
    left_out = ["A rank 1", "A rank 3", "B rank 0", "B rank 1"]
    assert cut["otherData"]["only_steps"] == left_out
    note = [e for e in cut["traceEvents"] if e["pid"] == process(cut, "about this trace")]
    assert any(e.get("args", {}).get("ranks") == "; ".join(left_out) for e in note)
    few = load(run, max_events=1)["otherData"]
    assert len(few["omitted"]) == 5


def test_the_counters_show_the_rate_of_each_nic(run):
    """A record of 1e8 bytes takes 200 ms: 4 Gbit/s in each direction, in every step."""
    trace = load(run)
    events = [
        e for e in trace["traceEvents"] if e["ph"] == "C" and e["name"].startswith("10.0.0.5")
    ]
    sent = [e for e in events if "sent" in e["name"]]
    assert len({e["name"] for e in events}) == 2
    assert max(e["args"]["Gbit/s"] for e in sent) == pytest.approx(4.0, rel=0.01)
    area = sum(
        first["args"]["Gbit/s"] * (second["ts"] - first["ts"])
        for first, second in itertools.pairwise(sorted(sent, key=lambda e: e["ts"]))
    )
    assert area * 1e3 / 8 == pytest.approx(6 * 1e8, rel=0.02)


def test_the_counters_show_how_many_ranks_wait(run):
    """Until 200 ms both ranks of the second stage have no activations, so they wait."""
    flows = pd.read_parquet(run.flows)
    flows[~flows["src"].isin(["10.0.0.2", "10.0.0.3"])].to_parquet(run.flows)
    steps = run.diagnosis("steps")
    second = steps[steps["address"].isin(["10.0.0.2", "10.0.0.3"])]
    gaps = second.assign(kind="compute", end_ns=second["start_ns"] + 200_000_000)
    spans = run.diagnosis("spans")
    run.write_diagnosis("spans", pd.concat([spans, gaps[spans.columns]], ignore_index=True))
    trace = load(run)
    wait = [e for e in trace["traceEvents"] if e["ph"] == "C" and e["name"].endswith("that wait")]
    assert {e["name"] for e in wait} == {"ranks of job0 that wait"}
    assert [e["args"]["ranks"] for e in wait[:2]] == [2, 0]
    assert [e["ts"] for e in wait[:2]] == [0, 200_000]


def test_arrows_lead_from_the_sender_of_a_message_to_its_receiver(make_run):
    run = make_run(truth=False)
    trace = load(run)
    events = trace["traceEvents"]
    tracks = names(trace, "thread_name")
    begun = {e["id"]: e for e in events if e["ph"] == "s"}
    ended = {e["id"]: e for e in events if e["ph"] == "f"}
    assert begun.keys() == ended.keys()
    assert len(begun) == 4 * 6
    ends = {(tracks[a["pid"], a["tid"]], tracks[b["pid"], b["tid"]])
            for a, b in ((begun[key], ended[key]) for key in begun)}  # fmt: skip
    assert ("10.0.0.0 pp", "10.0.0.2 pp") in ends
    around = [(e["pid"], e["tid"], e["ts"], e["ts"] + e["dur"]) for e in slices(trace)]
    for arrow in [*begun.values(), *ended.values()]:
        assert any(
            (pid, tid) == (arrow["pid"], arrow["tid"]) and start <= arrow["ts"] <= end
            for pid, tid, start, end in around
        )


def test_arrows_of_the_truth_join_the_ends_of_a_communication(run):
    spans = run.truth("spans")
    kinds = spans["kind"].map({"send_act": "send_act", "recv_act": "recv_act"})
    number = (spans["step"] * 10 + spans["rank"] % 2).where(kinds.notna() & (spans["job"] == "A"))
    types = {"micro_batch": "Int64", "communication": "Int64"}
    run.write_truth("spans", spans.assign(communication=number).astype(types))
    trace = load(run)
    tracks = names(trace, "thread_name")
    arrows = {kind: {e["id"]: e for e in trace["traceEvents"] if e["ph"] == kind} for kind in "sf"}
    assert len(arrows["s"]) == 2 * 6
    for key, begin in arrows["s"].items():
        end = arrows["f"][key]
        assert tracks[begin["pid"], begin["tid"]].endswith("pp send")
        assert tracks[end["pid"], end["tid"]].endswith("pp receive")
        assert end["ts"] - begin["ts"] == pytest.approx(40_000, abs=1)


def test_times_are_also_wall_clock_times(run):
    trace = load(run)
    origin = trace["otherData"]["origin_ns"]
    assert trace["otherData"]["origin_utc"] == "2026-11-21 01:36:40.000 UTC"
    steps = [e for e in slices(trace) if e["cat"] == "steps"]
    for step in steps:
        time = np.datetime64(step["args"]["utc"].removesuffix("Z"), "ns").astype(np.int64)
        assert time == origin + round(step["ts"] * 1000)
    clock = [e for e in trace["traceEvents"] if e["pid"] == process(trace, "clock (UTC)")]
    ticks = [e for e in clock if e["ph"] == "X"]
    assert 100 < len(ticks) <= 1500
    for tick in ticks[:5]:
        time = np.datetime64(tick["name"], "ns").astype(np.int64)
        assert time == origin + round(tick["ts"] * 1000)


def test_a_span_with_an_unknown_partner_is_shown(run):
    """A kind of span that the scores do not know is shown with the computation."""
    spans = run.truth("spans")
    kinds = spans["kind"].mask(spans["kind"] == "opt", "checkpoint")
    run.write_truth(
        "spans", spans.assign(kind=kinds).astype({"micro_batch": "Int64", "communication": "Int64"})
    )
    assert [e["cat"] for e in slices(load(run)) if e["name"] == "checkpoint"] == ["compute"] * 36


@pytest.mark.parametrize(
    ("lacking", "processes"),
    [
        ({"truth": False}, ["job job0: rebuilt from flows", "job job1: rebuilt from flows"]),
        ({"diagnosis": False}, ["job A: truth", "job B: truth"]),
        ({"truth": False, "diagnosis": False}, []),
    ],
)
def test_a_trace_of_an_incomplete_run(make_run, lacking, processes):
    named = names(load(make_run(**lacking)), "process_name")
    shown = [named[key] for key in sorted(named)]
    assert [name for name in shown if name.startswith("job ")] == processes


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=30))
def test_lanes_nest_and_are_as_few_as_first_fit_gives(parts):
    intervals = sorted(
        ((start, start + length) for start, length in parts), key=lambda i: (i[0], -i[1])
    )
    starts, ends = (np.array([i[k] for i in intervals], np.int64) for k in (0, 1))
    lane = lanes(starts, ends)
    for place, (start, end) in enumerate(intervals):
        for other in range(place):
            if lane[other] == lane[place]:
                before = intervals[other]
                assert before[1] <= start or end <= before[1]
    if len(lane):
        assert set(lane) == set(range(max(lane) + 1))

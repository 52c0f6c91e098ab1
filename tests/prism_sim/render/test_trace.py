"""The trace: well-formed Trace Event JSON, nested slices, true and inferred work."""

import json
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_sim.render.trace import _lanes, render_trace


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
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_every_event_has_the_form_of_the_format(run):
    for event in load(run)["traceEvents"]:
        assert event["ph"] in {"M", "X", "b", "e", "i"}
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] != "M":
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] in {"b", "e"}:
            assert {"cat", "id"} <= event.keys()


def test_truth_and_reconstruction_are_side_by_side(run):
    named = names(load(run), "process_name")
    assert [named[key] for key in sorted(named)] == [
        "job A: truth",
        "job A: rebuilt from flows (job0)",
        "job B: truth",
        "job B: rebuilt from flows (job1)",
        "faults and findings",
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
    assert cut["otherData"]["ranks_shown"] == 3
    shown = {name.split(",")[0] for (pid, _), name in names(cut, "thread_name").items() if pid == 1}
    assert {"rank 0", "rank 2"} <= shown
    counts = [len([e for e in slices(trace) if e["pid"] == 1]) for trace in (cut, whole)]
    assert counts[0] < counts[1]
    assert load(run, max_events=1)["otherData"]["ranks_shown"] == 1


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
    assert [name for name in shown if name != "faults and findings"] == processes


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=30))
def test_lanes_nest_and_are_as_few_as_first_fit_gives(parts):
    intervals = sorted(
        ((start, start + length) for start, length in parts), key=lambda i: (i[0], -i[1])
    )
    starts, ends = (np.array([i[k] for i in intervals], np.int64) for k in (0, 1))
    lanes = _lanes(starts, ends)
    for place, (start, end) in enumerate(intervals):
        for other in range(place):
            if lanes[other] == lanes[place]:
                before = intervals[other]
                assert before[1] <= start or end <= before[1]
    if len(lanes):
        assert set(lanes) == set(range(max(lanes) + 1))

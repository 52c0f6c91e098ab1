"""Figures: every one of every kind of run, with labels, units, and no text over text."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from prism_sim.render.figures import FIGURES
from prism_sim.toolkit import Run, paint

LACKING = {
    "nothing": {"truth": False, "diagnosis": False, "flows": False, "topology": False},
    "flows_only": {"truth": False, "diagnosis": False},
    "real": {"truth": False},
    "undiagnosed": {"diagnosis": False},
    "pathless": {"paths": False},
    "unplaced": {"topology": False},
}


def texts(made):
    """Every visible piece of text of a figure, laid out: (words, box)."""
    canvas = FigureCanvasAgg(made)
    with paint.ruled():
        canvas.draw()
    renderer = canvas.get_renderer()
    unseen = set(map(id, ticks_out_of_sight(made)))
    found = {id(text): text for text in made.findobj(Text) if text.get_text().strip()}
    return [
        (text.get_text(), text.get_window_extent(renderer))
        for key, text in found.items()
        if text.get_visible() and key not in unseen
    ]


def ticks_out_of_sight(made):
    """Labels that matplotlib keeps for later, or beyond the limits of an axis."""
    for axes in made.findobj(Axes):
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in [*axis.majorTicks, *axis.minorTicks]:
                inside = min(limits) <= tick.get_loc() <= max(limits)
                if not (inside and tick.get_visible() and axes.axison):
                    yield from (tick.label1, tick.label2)


def words(made):
    return " ".join(text for text, _ in texts(made))


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("kind", LACKING)
def test_every_figure_is_drawn_from_incomplete_runs(make_run, name, kind):
    run = make_run(**LACKING[kind])
    made = FIGURES[name].draw(run)
    assert made.axes or words(made).startswith("No ")
    assert paint.svg(made).startswith("<svg")


@pytest.mark.parametrize("name", FIGURES)
def test_no_texts_overlap(drawn, name):
    boxes = texts(drawn[name])
    assert len(boxes) > 5
    for place, (one, a) in enumerate(boxes):
        for other, b in boxes[:place]:
            shared = a.intersection(a, b)
            crossing = shared is not None and shared.width > 1 and shared.height > 1
            assert not crossing, f"{one!r} on {other!r}"


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_is_cut_off(drawn, name):
    made = drawn[name]
    sheet = made.bbox
    for text, box in texts(made):
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= sheet.x1 + 1, text
        assert box.y1 <= sheet.y1 + 1, text


def test_pictures_follow_the_theme_of_the_page(drawn):
    markup = paint.svg(drawn["step_durations"])
    assert "var(--ink)" in markup
    assert not [colour for colour in paint.SWAPPED if colour in markup]


@pytest.mark.parametrize("name", FIGURES)
def test_hostile_names_are_drawn_as_they_are(make_run, name):
    names = {"A": "$\\frac{1$ --><script>alert(1)</script>", "B": "% \u4e00 {x}"}
    run = make_run(job_names=names)
    assert "<script>" not in paint.svg(FIGURES[name].draw(run))


def test_axes_have_units(drawn):
    assert "time in these steps [ms]" in words(drawn["timeline"])
    text = words(drawn["step_durations"])
    assert "step [ms]" in text
    assert "time (UTC)" in text
    assert "[Gbit/s]" in words(drawn["switch_bandwidth"])


def test_titles_state_the_finding(drawn):
    text = {name: words(picture) for name, picture in drawn.items()}
    assert "2 of 2 jobs recognised exactly, 2 found" in text["cluster_map"]
    assert "100 % of 10 pairs have the right kind" in text["pair_types"]
    assert "100 % of steps rebuilt, their durations off by 0 %" in text["timeline"]
    assert "1 of 1 faults detected; 1 of 2 findings are true alarms" in text["step_durations"]


def test_the_cluster_map_marks_nics_in_the_wrong_job(run):
    jobs = run.diagnosis("jobs")
    run.write_diagnosis("jobs", jobs.assign(job=jobs["job"].mask(jobs.index == 3, "job1")))
    made = FIGURES["cluster_map"].draw(run)
    assert "0 of 2 jobs recognised exactly" in words(made)
    assert "wrong: 1 NICs" in words(made)


def test_the_timeline_shows_the_pipeline_of_the_first_fault(run):
    """Rank 2 is slow from step 3 on: ranks 0 and 2, steps 2 and 3."""
    made = FIGURES["timeline"].draw(run)
    labels = [label.get_text() for label in made.axes[0].get_yticklabels()]
    assert labels == [
        "rank 0, stage 0   true",
        "10.0.0.0   rebuilt",
        "rank 2, stage 1   true",
        "10.0.0.2   rebuilt",
    ]
    assert made.axes[0].get_xlim()[1] == pytest.approx(2000, rel=0.01)


def bars(axes, colour):
    """(line, start, length) of the bars of one colour."""
    from matplotlib.colors import to_rgba

    found = []
    for collection in axes.collections:
        face = collection.get_facecolor()
        if len(face) and np.allclose(face[0], to_rgba(colour)):
            for path in collection.get_paths():
                (x0, y0), (x1, y1) = path.vertices.min(0), path.vertices.max(0)
                found.append((round((y0 + y1) / 2), round(x0), round(x1 - x0)))
    return sorted(found)


def test_bars_lie_where_the_spans_were(run):
    """DP of rank 0: 750-850 and 800-950 ms of each step; true on line 0, rebuilt on line 1."""
    made = FIGURES["timeline"].draw(run)
    dp = bars(made.axes[0], paint.WORK["dp"])
    expected = [(750, 100), (800, 150), (1750, 100), (1800, 150)]
    for line in (0, 1):
        assert [bar[1:] for bar in dp if bar[0] == line] == expected


def test_the_truth_of_partners_outside_the_window_still_counts(run):
    """A receiver waits from the end of its step on; its sender comes long after the window."""
    spans = run.truth("spans")
    waits = (spans["kind"] == "recv_act") & (spans["step"] == 4)
    early = spans["start_ns"].mask(waits, spans["start_ns"] - 400 * 1_000_000)
    run.write_truth(
        "spans",
        spans.assign(start_ns=early).astype({"micro_batch": "Int64", "communication": "Int64"}),
    )
    pp = bars(FIGURES["timeline"].draw(run).axes[0], paint.WORK["pp"])
    assert max(start + length for line, start, length in pp if line == 2) <= 1600


def test_step_durations_mark_true_and_false_alarms(run):
    from matplotlib.colors import to_rgba

    axes = FIGURES["step_durations"].draw(run).axes[-1]
    names = [label.get_text() for label in axes.get_yticklabels()]
    filled = {
        names[round(path.vertices[:, 1].mean())]
        for collection in axes.collections
        if len(collection.get_facecolor())
        and np.allclose(collection.get_facecolor()[0], to_rgba(paint.FINDING))
        for path in collection.get_paths()
    }
    assert set(names) == {"10.0.0.2", "10.0.0.4"}
    assert filled == {"10.0.0.2"}


def test_switch_bandwidth_is_bytes_over_time(run):
    """10^8 bytes in 200 ms: 4 Gbit/s through every switch and all the time."""
    axes = FIGURES["switch_bandwidth"].draw(run).axes[0]
    heights = np.concatenate([line.get_ydata() for line in axes.lines])
    assert heights == pytest.approx(4.0)


def test_a_slow_switch_falls_in_its_window(run):
    flows = pd.read_parquet(run.flows)
    first = int(flows["start_ns"].min() // 10**9 * 10**9)
    late = flows["path"].str.contains("leaf0").to_numpy() & (flows["start_ns"] > first + 3 * 10**9)
    ends = flows["start_ns"] + (flows["end_ns"] - flows["start_ns"]) * np.where(late, 2, 1)
    flows.assign(end_ns=ends).to_parquet(run.flows)
    faults = run.truth("faults").assign(switch="leaf0", culprit="leaf0", culprit_kind="switch")
    run.write_truth("faults", faults)
    text = words(FIGURES["switch_bandwidth"].draw(run))
    assert "DP traffic through leaf0 moves at 2 Gbit/s while a fault lasts, 4 Gbit/s" in text


def test_many_jobs_and_servers_still_fit(tmp_path):
    """300 servers x 8 NICs, 40 jobs: one image, a legend that ends."""
    run = Run(tmp_path)
    ends = [
        {"address": f"10.{s}.{n}", "server": f"s{s:04d}", "nic": n, "switch": f"leaf{n}"}
        for s in range(300)
        for n in range(8)
    ]
    run.write_json(run.topology, {"endpoints": ends, "switches": [], "links": []})
    jobs = [(f"job{n // 60:02d}", end["address"]) for n, end in enumerate(ends)]
    run.write_diagnosis("jobs", pd.DataFrame(jobs, columns=["job", "address"]))
    made = FIGURES["cluster_map"].draw(run)
    assert "and 28 more" in words(made)
    assert len(paint.svg(made)) < 300_000


def test_job_colours_do_not_repeat():
    colours = paint.job_colours([f"job{n}" for n in range(36)])
    assert len(set(colours.values())) == 36


def widen(run, stages, replicas):
    """Make job A of the run a grid of many more ranks, and its pairs DP rings and pipelines."""
    grid = [(p, d) for p in range(stages) for d in range(replicas)]
    ranks = pd.DataFrame(grid, columns=["pp", "dp"]).assign(job="A", gpu=0, tp=0, ep=0, cp=0)
    ranks = ranks.assign(rank=ranks.index, address="10.1." + ranks.index.astype(str), server="h")
    other = run.truth("ranks").query("job == 'B'")
    run.write_truth("ranks", pd.concat([ranks, other]))
    at = {(row.pp, row.dp): row.address for row in ranks.itertuples()}
    pairs = [("A", at[p, d], at[p, (d + 1) % replicas], "dp", 1) for p, d in grid]
    pairs += [("A", at[p, d], at[p + 1, d], "pp", 1) for p, d in grid if p + 1 < stages]
    columns = ["job", "src", "dst", "kind", "bytes"]
    run.write_truth("pairs", pd.DataFrame(pairs, columns=columns))
    return ranks


def test_pairs_of_a_large_job_show_whole_stages_of_some_replicas(run):
    """8 stages x 16 replicas are 128 NICs; 64 fit, so 8 replicas: 7 of 8 DP hops, all PP hops."""
    widen(run, 8, 16)
    made = FIGURES["pair_types"].draw(run)
    assert "shown: 64 of 130 NICs" in words(made)
    dots = made.axes[0].collections[0].get_offsets()
    assert len(dots) == 8 * 7 + 7 * 8


def test_pairs_of_several_jobs_show_those_that_fit_whole(run):
    """60 NICs of A leave room for the 2 of B, which are dropped with A of 63."""
    widen(run, 4, 15)
    assert "shown" not in words(FIGURES["pair_types"].draw(run))
    widen(run, 7, 9)
    assert "shown: 63 of 65 NICs" in words(FIGURES["pair_types"].draw(run))


def test_a_long_pipeline_shows_its_ends_and_the_slow_stage(run):
    """Of 10 stages, four: the first, the last, and rank 13 (stage 6, replica 1) among them."""
    ranks = widen(run, 10, 2)
    steps = run.truth("steps").query("job == 'A' and rank == 0")
    every = pd.concat([steps.assign(rank=rank) for rank in ranks["rank"]])
    run.write_truth("steps", pd.concat([every, run.truth("steps").query("job == 'B'")]))
    run.write_truth("faults", run.truth("faults").assign(rank=13, culprit="10.1.13"))
    made = FIGURES["timeline"].draw(run)
    labels = [label.get_text() for label in made.axes[0].get_yticklabels()]
    assert [label.split()[1] for label in labels if "true" in label] == ["1,", "7,", "13,", "19,"]


def test_many_culprits_share_a_row(run):
    """Twenty findings that name twenty things: ten rows, and one for the rest."""
    one = run.diagnosis("findings").iloc[[0]]
    many = [one.assign(finding=n, culprit=f"leaf{n}", magnitude=float(n)) for n in range(20)]
    run.write_diagnosis("findings", pd.concat(many))
    axes = FIGURES["step_durations"].draw(run).axes[-1]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [f"leaf{n}" for n in range(19, 9, -1)] + ["10 more"]


def test_a_job_without_an_inferred_job_is_labelled_so(run):
    run.write_diagnosis("jobs", run.diagnosis("jobs").query("job == 'job0'"))
    assert "Job B: no found job stands for it" in words(FIGURES["step_durations"].draw(run))


@pytest.mark.parametrize("factor", [1, 9, 22, 47, 1_300])
def test_the_scale_of_bytes_is_legible_for_all_sizes(run, factor):
    flows = pd.read_parquet(run.flows)
    flows.assign(bytes=flows["bytes"] * factor * 10).to_parquet(run.flows)
    boxes = [box for text, box in texts(FIGURES["cluster_map"].draw(run)) if text.endswith("B")]
    assert 2 <= len(boxes) <= 6
    edges = sorted((box.x0, box.x1) for box in boxes)
    assert all(right[0] > left[1] for left, right in pairwise(edges))


def test_a_fault_in_seconds_is_found_by_its_time(run):
    """From 4.5 s on, in A's step 4: steps 3 and 4 are shown; one is shorter here to identify it."""
    faults = run.truth("faults").assign(from_step=None, to_step=None)
    run.write_truth("faults", faults.assign(start_ns=faults["start_ns"] + 1_500_000_000))
    spans = run.truth("spans")
    ours = (spans["kind"] == "opt") & (spans["step"] == 3)
    spans = spans.assign(end_ns=spans["end_ns"] - ours * 20_000_000)
    run.write_truth("spans", spans.astype({"micro_batch": "Int64", "communication": "Int64"}))
    shown = bars(FIGURES["timeline"].draw(run).axes[0], paint.WORK["opt"])
    assert [bar[1:] for bar in shown if bar[0] == 0] == [(950, 30), (1950, 50)]

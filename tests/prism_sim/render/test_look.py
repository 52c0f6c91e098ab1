"""What pages read of a run, and pages of small runs."""

import pandas as pd
from matplotlib.colors import to_rgba

from prism_sim.render.figures import FIGURES
from prism_sim.toolkit import paint

MS = 1_000_000
REBUILT_OF_STAGE_1 = 3  # line of the timeline


def dots(made):
    """The colour that is seen at each place: later dots hide earlier ones."""
    points = made.axes[0].collections[0]
    places = map(tuple, points.get_offsets().data)
    return dict(zip(places, map(tuple, points.get_facecolor()), strict=True))


def test_other_traffic_hides_no_training_traffic(make_run):
    run = make_run(truth=False)
    pairs = run.diagnosis("pairs")
    both = [pairs, pairs.assign(kind="other", kind_unrefined="other")]
    run.write_diagnosis("pairs", pd.concat(both, ignore_index=True))
    seen = set(dots(FIGURES["pair_types"].draw(run)).values())
    assert seen == {to_rgba(paint.KINDS[kind]) for kind in ("dp", "pp")}


def test_kinds_that_were_not_refined_have_one_table(make_run):
    run = make_run()
    titles = {}
    for name in ("same", "refined"):
        pairs = run.diagnosis("pairs")
        before = pairs["kind"].where((pairs.index > 0) | (name == "same"), "unknown")
        run.write_diagnosis("pairs", pairs.assign(kind_unrefined=before))
        titles[name] = [axes.get_title(loc="left") for axes in FIGURES["pair_types"].draw(run).axes]
    assert titles["same"][2:] == ["All pairs"]
    assert titles["refined"][2:] == ["After refinement", "Before refinement"]


def test_waiting_is_empty_in_the_rebuilt_timeline(run):
    """The second stage waits until its first activation comes, and does not compute before."""
    spans = run.diagnosis("spans")
    own = spans[(spans["address"] == "10.0.0.2") & (spans["kind"] == "pp")]
    first = own.sort_values("start_ns").drop_duplicates("step")
    gap = first.assign(kind="compute", start_ns=first["start_ns"] - 200 * MS)
    gap["end_ns"] = first["start_ns"]
    run.write_diagnosis("spans", pd.concat([spans, gap], ignore_index=True))
    flows = pd.read_parquet(run.flows)
    answers = (flows["src"] == "10.0.0.2") & (flows["dst"] == "10.0.0.0")
    flows[~answers].to_parquet(run.flows)  # which it would send at the same moment
    made = FIGURES["timeline"].draw(run)
    begins = [
        round(path.vertices[:, 0].min())
        for collection in made.axes[0].collections
        if to_rgba(paint.WORK["compute"]) in map(tuple, collection.get_facecolor())
        for path in collection.get_paths()
        if round(path.vertices[:, 1].mean()) == REBUILT_OF_STAGE_1
    ]
    assert begins
    assert min(begins) >= 200


def test_a_job_that_is_called_job_is_not_so_called_twice():
    assert paint.job_heading("job-0") == "Job-0"
    assert paint.job_heading("alpha") == "Job alpha"

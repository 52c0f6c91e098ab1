"""What pages read of a run, and pages of small runs."""

import pandas as pd
import pytest
from matplotlib.colors import to_rgba

from prism_common.errors import UserError
from prism_sim.render import look
from prism_sim.render.figures import FIGURES
from prism_sim.run_folder import TRUTH
from prism_sim.toolkit import paint


def test_an_absent_table_is_empty_with_its_columns(make_run):
    run = make_run(truth=False)
    assert list(look.truth(run, "spans").columns) == TRUTH["spans"].names
    assert look.rows(run, "truth", "spans") == len(look.truth(run, "spans")) == 0


def test_conditions_pick_rows(run):
    assert set(look.truth(run, "steps", [("job", "==", "B")])["job"]) == {"B"}
    picked = look.diagnosis(run, "steps", [("address", "in", ["10.0.0.1"]), ("step", "in", [2])])
    assert len(picked) == 1


def test_a_broken_table_is_a_user_error(run):
    (run.folder / "truth" / "steps.parquet").write_bytes(b"half a file")
    with pytest.raises(UserError, match="not a readable Parquet file"):
        look.truth(run, "steps")


def test_time_starts_with_the_first_step_or_the_first_flow(make_run):
    whole, real = make_run("whole"), make_run("real", truth=False)
    flows = make_run("flows", truth=False, diagnosis=False)
    assert look.origin_ns(whole) == look.origin_ns(real) == 1_795_225_000_000_000_000
    assert look.origin_ns(flows) == 1_795_225_000_200_000_000
    nothing = make_run("nothing", truth=False, diagnosis=False, flows=False)
    assert look.origin_ns(nothing) == 0


def test_a_run_is_called_by_its_manifest_or_its_folder(run):
    assert look.name_of(run) == "whole"
    run.write_json(run.manifest, {"case": "a capture"})
    assert look.name_of(run) == "a capture"
    run.manifest.unlink()
    assert look.name_of(run) == "whole"


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

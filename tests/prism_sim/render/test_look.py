"""Reading for pictures: absent tables are empty, broken ones are the user's to know."""

import pytest

from prism_common.errors import UserError
from prism_sim.render import look
from prism_sim.run_folder import TRUTH


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

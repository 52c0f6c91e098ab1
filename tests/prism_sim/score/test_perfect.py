"""A perfect diagnosis, and questions that a method does not answer."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import prism_sim as ps
from prism_common.errors import UserError
from prism_sim.render.comparison import as_markdown
from prism_sim.score import Score
from prism_sim.score.summary import summary_lines
from prism_sim.studies.paired import compared


def numbers(content, ending):
    """All numbers under keys that end so, anywhere in the score."""
    if isinstance(content, dict):
        for key, value in content.items():
            if isinstance(value, int | float) and key.endswith(ending):
                yield value
            yield from numbers(value, ending)


def test_every_part_is_there(world):
    assert [*world.score()] == ["jobs", "pairs", "parallelism", "timeline", "faults", "meta"]


def test_every_error_is_zero_and_every_step_is_covered(world):
    timeline = world.score()["timeline"]
    errors = [*numbers(timeline, ("_mean", "_p50", "_p95", "_p99", "_max", "_bias", "_bias_ns"))]
    assert len(errors) > 100
    assert set(errors) == {0.0}
    assert timeline["coverage"] == timeline["dp_end_coverage"] == 1.0
    assert timeline["steps_matched"] == timeline["steps_true"] == 60
    assert timeline["steps_unexplained"] == 0


def test_every_fraction_is_one(world):
    score = world.score()
    assert score["jobs"] == {"true": 2, "found": 2, "exact": 2, "accuracy": 1.0}
    assert score["pairs"]["accuracy"] == score["pairs"]["accuracy_unrefined"] == 1.0
    assert score["pairs"]["accuracy_bytes"] == 1.0
    assert score["pairs"]["confusion"] == {"dp": {"dp": 6}, "pp": {"pp": 4}}
    assert score["parallelism"]["groups_exact"] == score["parallelism"]["stage_order"] == 1.0
    faults = score["faults"]
    assert faults["precision"] == faults["recall"] == faults["localized_top1"] == 1.0
    assert faults["cause_accuracy"] == 1.0
    assert faults["steps_to_detect"] == 0.0
    assert faults["false_alarms_per_1000_job_steps"] == 0.0


def test_the_score_is_saved_as_returned(world):
    score = world.score()
    assert json.loads(world.run.score.read_text()) == score


def test_a_saved_score_is_read_back_as_it_was(world):
    score = world.score()
    assert Score.from_json(score).to_json() == score
    assert Score.from_json(score | {"newer": 1}).to_json() == score


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("timeline", {}, "timeline.steps_true: Field required"),
        ("jobs", [], "jobs: .* should be"),
        (
            "jobs",
            {"true": "two", "found": 2, "exact": 2, "accuracy": 1},
            "jobs.true: .* valid integer",
        ),
    ],
)
def test_a_damaged_score_is_refused_with_the_place(world, part, value, message):
    with pytest.raises(UserError, match=message):
        Score.from_json(world.score() | {part: value})


def test_meta_has_the_method_and_the_input(world):
    world.run.write_json(world.run.manifest, {"method": "paper"})
    meta = world.score()["meta"]
    assert meta["method"] == "paper"
    assert meta["rows"]["truth"]["steps"] == 60
    assert meta["rows"]["diagnosis"]["jobs"] == 6


def test_an_empty_diagnosis_has_a_score_of_zero_and_no_error(world):
    for name in world.diagnosis:
        world.change(name, lambda frame: frame.iloc[:0])
    score = world.score()
    assert score["jobs"]["accuracy"] == 0.0
    assert score["pairs"]["confusion"] == {"dp": {"missing": 6}, "pp": {"missing": 4}}
    assert score["parallelism"]["groups_exact"] == 0.0
    assert score["timeline"]["coverage"] == 0.0
    assert score["timeline"]["step_error_mean"] is None
    assert score["timeline"]["step_error_all_mean"] == 1.0
    assert score["timeline"]["dp_time_error_all_bias"] == -1.0
    assert score["faults"]["recall"] == 0.0
    assert score["faults"]["precision"] is None


def test_an_empty_truth_leaves_every_figure_undefined(world):
    for name in world.truth:
        world.truth[name] = world.truth[name].iloc[:0]
    for name in world.diagnosis:
        world.change(name, lambda frame: frame.iloc[:0])
    score = world.score()
    assert score["jobs"]["accuracy"] is None
    assert score["pairs"]["accuracy"] is None
    assert score["timeline"]["coverage"] is None
    assert score["faults"]["recall"] is None
    assert score["faults"]["false_alarms_per_1000_job_steps"] is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return ps.run("tiny/pair", set={"jobs.0.steps": 4}, out=folder)


@pytest.fixture
def scored(run, tmp_path):
    """Score some tables of the diagnosis of the run, as another program would give them."""

    def score_of(*names, empty=()):
        for name in (*names, *empty):
            table = getattr(run.diagnosis, name)
            table = table.iloc[:0] if name in empty else table
            table.to_parquet(tmp_path / f"{name}.parquet", index=False)
        return ps.score(run, tmp_path)

    return score_of


def test_tables_that_are_left_out_have_no_figure(scored):
    score = scored("jobs", "steps")
    assert (score["jobs.accuracy"], score["timeline.coverage"]) == (1, 1)
    names = ("pairs.accuracy", "parallelism.groups_exact", "timeline.pp_time_error_all_mean",
             "timeline.per_job.solo.dp_time_error_all_mean", "faults.precision")  # fmt: skip
    assert [score[name] for name in names] == [None] * len(names)
    assert score["pairs.total"] > 0
    assert score.meta.left_out == ["layouts", "pairs", "groups", "spans", "findings"]
    lines = summary_lines(score)
    assert "pairs: not answered (the method gave no table pairs)" in lines
    assert "groups: not answered (the method gave no table groups or layouts)" in lines
    assert lines[0] == "jobs: 1 of 1 exact (1 found)"


def test_a_table_without_rows_is_an_answer(scored):
    score = scored("jobs", empty=("pairs", "steps"))
    assert (score["pairs.accuracy"], score["timeline.coverage"]) == (0, 0)
    assert "pairs: 0 % of" in " ".join(summary_lines(score))


def test_a_comparison_says_what_was_not_answered():
    row = {"world": "a", "reason": None, "error": None, "seconds": 1.0, "peak_memory_bytes": 1.0}
    one = row | {"method": "one", "left_out": "pairs", "jobs.accuracy": 1.0}
    two = row | {"method": "two", "left_out": "", "jobs.accuracy": 1.0, "pairs.accuracy": 0.0}
    figures = ("jobs.accuracy", "pairs.accuracy")
    page = as_markdown("Comparison", {"g": compared(pd.DataFrame([one, two]), "one", figures)})
    assert "| pairs.accuracy | not answered | 0 |" in page
    assert "| jobs.accuracy | 1 | 1 |" in page

"""A table that a method leaves out is not answered; one that it gives without rows is wrong."""

from __future__ import annotations

import pandas as pd
import pytest

import prism_sim as ps
from prism_sim.render.comparison import as_markdown
from prism_sim.score.summary import summary_lines
from prism_sim.studies.paired import compared


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

"""The simulator from Python: stages as functions, and streams of records."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

import prism_sim as ps
from processes import completed


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ps.RunResult:
    out = tmp_path_factory.mktemp("api") / "run"
    return ps.run("tiny/pair", method="paper", set={"jobs.0.steps": 4}, seed=5, out=out)


def test_a_run_has_its_score_its_diagnosis_and_its_truth(result: ps.RunResult) -> None:
    assert result.score["jobs"]["accuracy"] == 1
    assert isinstance(result.diagnosis.findings, pd.DataFrame)
    assert (result.scenario.seed, result.scenario.jobs[0].steps) == (5, 4)
    assert set(result.truth("steps")["step"]) == {0, 1, 2, 3}
    assert len(result.flows()) > 0


def test_a_report_is_drawn_on_request(result: ps.RunResult) -> None:
    assert not (result.folder / "report.html").exists()
    page = result.report()
    assert page == result.folder / "report.html"
    assert "<html" in page.read_text(encoding="utf-8")[:200]


def test_a_run_displays_in_a_notebook_with_names_escaped(result: ps.RunResult) -> None:
    shown = result._repr_html_()
    assert "pair, seed 5" in shown
    assert "job" in shown
    assert len(repr(result)) < 300


def test_mistakes_are_user_errors_with_places() -> None:
    with pytest.raises(ps.UserError, match="did you mean tiny/pair"):
        ps.run("tiny/pear")
    with pytest.raises(ps.UserError, match="unknown key 'stepps'"):
        ps.run("tiny/pair", set={"jobs.0.stepps": 5})
    with pytest.raises(ps.UserError, match="there is no method"):
        ps.run("tiny/pair", method="guess")
    with pytest.raises(ps.UserError, match="empty"):
        ps.run("tiny/pair", out="")


def test_importing_the_package_is_cheap_in_any_order(tmp_path: Path) -> None:
    code = (
        "import sys, prism_sim as ps\n"
        "assert not {'numpy', 'pandas', 'pydantic', 'typer', 'yaml'} & set(sys.modules)\n"
        "import prism_sim.run_folder, prism_sim.simulate, prism_sim.cli\n"
        "assert callable(ps.run) and callable(ps.RunResult)"
    )
    done = completed([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr


def test_both_programs_and_both_packages_have_the_same_default_method():
    from inspect import signature

    import llmprism.cli
    import llmprism.pipeline
    import prism_sim.cli
    from llmprism.defaults import METHOD

    takers = (
        llmprism.cli.run,
        llmprism.pipeline.diagnose,
        prism_sim.cli.run,
        prism_sim.cli.diagnose,
    )
    assert {signature(one).parameters["method"].default for one in takers} == {METHOD}

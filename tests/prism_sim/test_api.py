"""The simulator from Python: stages as functions, and streams of records."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import prism_sim as ps
from prism_sim.streaming import Streaming
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


SCHEMA = pa.schema([("number", pa.int64())])


class Numbers(Streaming):
    """Buffers numbers to the end."""

    def __init__(self, path, fails=False):
        self.held = []
        self.fails = fails
        super().__init__(path, SCHEMA)

    def write(self, numbers):
        self._stream.write(lambda: pa.table({"number": numbers}, schema=SCHEMA))

    def _write_rest(self):
        if self.fails:
            raise OSError("disk full")
        self.write(self.held)


def writers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("write-")]


def test_buffered_rows_are_written_at_the_end(tmp_path):
    with Numbers(tmp_path / "n") as numbers:
        numbers.write([1, 2])
        numbers.held = [3]
    assert pq.read_table(tmp_path / "n")["number"].to_pylist() == [1, 2, 3]


def test_after_an_error_the_file_is_closed_without_it(tmp_path):
    def fails():
        with Numbers(tmp_path / "n") as numbers:
            numbers.write([1])
            numbers.held = [2]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert pq.read_table(tmp_path / "n")["number"].to_pylist() == [1]


def test_the_file_is_closed_also_where_the_rest_cannot_be_written(tmp_path):
    def fails():
        with Numbers(tmp_path / "n", fails=True) as numbers:
            numbers.write([1])

    with pytest.raises(OSError, match="disk full"):
        fails()
    assert not writers()
    assert pq.read_table(tmp_path / "n")["number"].to_pylist() == [1]


def test_without_a_block_there_is_no_file(tmp_path):
    Numbers(tmp_path / "n")
    assert not (tmp_path / "n").exists()

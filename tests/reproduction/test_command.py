"""The command of the reproduction: wrong arguments, and the results of its reduced form."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from prism_sim import __version__
from processes import completed
from reproducing import cases_of, reproduce_after_a_kill
from reproduction import EXPERIMENTS
from reproduction.base import Experiment
from reproduction.command import app

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("empty_folder")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_unknown_experiments_are_refused() -> None:
    result = call("--only", "e99")
    assert result.exit_code == 1
    assert "there is no experiment 'e99'" in result.stderr
    assert call("papers").exit_code == 2
    assert call("--update", "--reduced").exit_code == 2


@pytest.mark.parametrize("words", [["--version"], ["--only", "e99", "--version"]])
def test_the_program_has_the_version_of_the_simulator(words: list[str]) -> None:
    done = completed([sys.executable, "-m", "reproduction", *words], ROOT)
    assert (done.returncode, done.stdout) == (0, f"prism-sim {__version__}\n"), done.stderr


@pytest.fixture
def only_toy(toy: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other experiment than the toy."""
    for name in [name for name in EXPERIMENTS if name != toy.name]:
        monkeypatch.delitem(EXPERIMENTS, name)


@pytest.mark.usefixtures("only_toy")
def test_a_failure_is_reported_and_the_reference_does_not_change() -> None:
    result = call("--processes", "1", "--update", "--seeds", "3", "--json")
    assert result.exit_code == 1
    assert "toy seed 3: ValueError: too large" in result.stderr
    (summary,) = json.loads(result.stdout)["experiments"]
    assert (summary["done"], [failed["case"] for failed in summary["failed"]]) == (2, ["seed 3"])
    page = Path("results/paper/paper.md").read_text()
    assert "ours: 3 (2 to 4)" in page
    assert "**seed 3 failed:** ValueError" in page
    assert "results/reference/paper.md was not changed" in result.stderr
    assert not Path("results/reference").exists()


@pytest.mark.usefixtures("only_toy")
def test_update_rewrites_the_page_of_the_reference() -> None:
    result = call("--update", "--seeds", "1", "--processes", "1")
    assert result.exit_code == 0
    assert "page: results/reference/paper.md" in result.stdout
    assert "ours: 2" in Path("results/reference/paper.md").read_text()


@pytest.mark.slow
def test_a_killed_run_resumes_and_its_page_has_every_part(reduced_e3: Path) -> None:
    _check_resumed(reduced_e3, ["e3"])


@pytest.mark.full
def test_a_killed_run_of_all_experiments_resumes(tmp_path: Path) -> None:
    reproduce_after_a_kill(tmp_path, [*EXPERIMENTS])
    _check_resumed(tmp_path, [*EXPERIMENTS])


def _check_resumed(folder: Path, experiments: list[str]) -> None:
    before = json.loads((folder / "before.json").read_text())
    facts = json.loads((folder / "facts.json").read_text())
    assert len(before) >= 2
    assert facts["from_before"] == len(before)
    assert facts["made"] == facts["cases"] - len(before) > 0
    assert f"{facts['cases']} of {facts['cases']}: " in (folder / "errors.txt").read_text()
    after = cases_of(folder)
    assert before.items() <= after.items()
    assert len(after) == facts["cases"]
    page = (folder / "out/paper.md").read_text()
    assert [one["name"] for one in facts["experiments"]] == experiments
    for one in (EXPERIMENTS[name] for name in experiments):
        section = page.split(f"## {one.title}\n")[1].split("\n## ")[0]
        assert sum(line.startswith("|") for line in section.splitlines()) >= 3, one.title
    assert "Reduced form" in page

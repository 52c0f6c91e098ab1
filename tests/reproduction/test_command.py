"""``prism-sim reproduce``: wrong arguments, and the results of its reduced form."""

import json
import sys
from pathlib import Path

import pytest

from calling import call
from prism_sim import __version__
from prism_sim.commands import reproducing
from processes import completed
from reproducing import cases_of, reproduce_after_a_kill
from reproduction import EXPERIMENTS
from reproduction.base import Experiment

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("empty_folder")


def test_reproduce_refuses_unknown_experiments() -> None:
    result = call("reproduce", "paper", "--only", "e99")
    assert result.exit_code == 1
    assert "there is no experiment 'e99'" in result.stderr
    assert call("reproduce", "papers").exit_code == 2
    assert call("reproduce", "paper", "--update", "--reduced").exit_code == 2


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
    options = ("reproduce", "paper", "--processes", "1", "--update")
    result = call(*options, "--seeds", "3", "--json")
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
def test_update_rewrites_page_and_pictures_of_the_reference() -> None:
    result = call("reproduce", "paper", "--update", "--seeds", "1", "--processes", "1")
    assert result.exit_code == 0
    assert "page: results/reference/paper.md" in result.stdout
    page = Path("results/reference/paper.md").read_text()
    assert "](../../docs/images/paper-toy.png)" in page
    assert Path("docs/images/paper-toy.png").read_bytes().startswith(b"\x89PNG")


def test_an_installed_package_names_the_place_of_the_reproduction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproducing, "checkout", lambda: tmp_path)
    for arguments in ([], ["--help"], ["--only", "e1"]):
        result = call("reproduce", "paper", *arguments)
        assert result.exit_code == 1
        assert "not part of the installed package" in result.stderr
        assert "make paper" in result.stderr
        assert "Traceback" not in result.output


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
    for line in page.splitlines():
        if line.startswith("!["):
            assert (folder / "out" / line.split("](")[1].rstrip(")")).exists()

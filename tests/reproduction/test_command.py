"""``prism-sim reproduce``: wrong arguments, and the results of its reduced form."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typer.testing import Result

from prism_sim.loading.scenario import Scenario
from prism_sim.render import paint
from prism_sim.scenario.cluster import Cluster
from prism_sim.version import __version__
from processes import completed
from reproducing import cases_of, reproduce_after_a_kill
from reproduction import EXPERIMENTS
from reproduction.base import Done, Experiment, PageFigure, Trial

ROOT = Path(__file__).resolve().parents[2]
Call = Callable[..., Result]


def test_reproduce_refuses_unknown_experiments(call: Call) -> None:
    result = call("reproduce", "paper", "--only", "e99")
    assert result.exit_code == 1
    assert "there is no experiment 'e99'" in result.stderr
    assert call("reproduce", "papers").exit_code == 2
    assert call("reproduce", "paper", "--update", "--reduced").exit_code == 2


@pytest.mark.parametrize("words", [["--version"], ["--only", "e99", "--version"]])
def test_the_program_has_the_version_of_the_simulator(words: list[str]) -> None:
    done = completed([sys.executable, "-m", "reproduction", *words], ROOT)
    assert (done.returncode, done.stdout) == (0, f"prism-sim {__version__}\n"), done.stderr


def _trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    idle = Scenario(cluster=Cluster(servers=1), jobs=())
    return [
        Trial("toy", f"seed {seed}", idle.model_copy(update={"seed": seed}), {"reduced": reduced})
        for seed in seeds
    ]


def _fails_with_seed_2(trial: Trial) -> dict[str, int]:
    if trial.scenario.seed == 2:
        raise ValueError("too large")
    return {"seed": trial.scenario.seed}


@paint.styled
def _draw(done: Sequence[Done]) -> Figure:
    return paint.sentence(f"{len(done)} worlds")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one experiment, which fails with seed 2."""
    one = Experiment(
        "toy", "Toy", _trials, _fails_with_seed_2,
        section=lambda done: f"{len(done)} finished\n",
        gaps=lambda _: [],
        pictures=lambda done: [PageFigure("toy", "Worlds", _draw(done))],
    )  # fmt: skip
    for name in list(EXPERIMENTS):
        monkeypatch.delitem(EXPERIMENTS, name)
    monkeypatch.setitem(EXPERIMENTS, "toy", one)


@pytest.mark.usefixtures("toy")
def test_a_failure_is_reported_and_the_reference_does_not_change(call: Call) -> None:
    options = ("reproduce", "paper", "--processes", "1", "--update")
    result = call(*options, "--seeds", "3", "--json")
    assert result.exit_code == 1
    assert "toy seed 2: ValueError: too large" in result.stderr
    (summary,) = json.loads(result.stdout)["experiments"]
    assert (summary["done"], [failed["case"] for failed in summary["failed"]]) == (2, ["seed 2"])
    page = Path("results/paper/paper.md").read_text()
    assert "2 finished" in page
    assert "**seed 2 failed:** ValueError" in page
    assert "results/reference/paper.md was not changed" in result.stderr
    assert not Path("results/reference").exists()


@pytest.mark.usefixtures("toy")
def test_update_rewrites_page_and_pictures_of_the_reference(call: Call) -> None:
    result = call("reproduce", "paper", "--update", "--seeds", "1", "--processes", "1")
    assert result.exit_code == 0
    assert "page: results/reference/paper.md" in result.stdout
    page = Path("results/reference/paper.md").read_text()
    assert "](../../docs/images/paper-toy.png)" in page
    assert Path("docs/images/paper-toy.png").read_bytes().startswith(b"\x89PNG")


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

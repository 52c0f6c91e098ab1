"""The command line, to call in an empty folder; and a reproduction that tests share."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from prism_sim.cli import app
from reproducing import MEASURED, TOY, reproduce_after_a_kill
from reproduction import EXPERIMENTS
from reproduction.base import Experiment
from shared import made_once


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Call ``prism-sim`` with arguments, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    return invoke


@pytest.fixture(scope="session")
def reduced_e3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a reduced form of E3 that was killed and went on."""
    return made_once(
        tmp_path_factory, "reduced-e3", lambda folder: reproduce_after_a_kill(folder, ["e3"])
    )


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The experiment without a simulation, beside the others."""
    monkeypatch.setitem(EXPERIMENTS, "toy", TOY)
    MEASURED.clear()
    return TOY

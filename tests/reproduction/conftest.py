"""The command line, to call in an empty folder; and a reproduction that tests share."""

from pathlib import Path

import pytest

from reproducing import TOY, reproduce_after_a_kill
from reproduction import EXPERIMENTS
from reproduction.base import Experiment
from shared import made_once


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
    return TOY

"""Fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from prism_sim.toolkit import Run
from tiny import simulate_one

# How long a test takes is no property of it, and the same tests run on every machine.
UNSTATED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=UNSTATED)
settings.load_profile("same")


@pytest.fixture
def simulated(tmp_path: Path) -> Callable[..., Run]:
    """Simulate one tiny job (its fields given) below a temporary folder; returns the run."""

    def make(folder: str = "run", **fields: Any) -> Run:
        return simulate_one(tmp_path / folder, **fields)

    return make


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)

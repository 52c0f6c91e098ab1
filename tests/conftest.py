"""Fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from prism_sim.toolkit import Run
from tiny import simulate_one

# How long a test takes is no property of it, and the same tests run on every machine.
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")


@pytest.fixture
def simulated(tmp_path: Path) -> Callable[..., Run]:
    """Simulate one tiny job (its fields given) below a temporary folder; returns the run."""

    def make(folder: str = "run", **fields: Any) -> Run:
        return simulate_one(tmp_path / folder, **fields)

    return make

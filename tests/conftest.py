"""Fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from prism_sim.run_folder import Run
from tiny import simulate_one

settings.register_profile("untimed", deadline=None)  # how long a test takes is no property of it
settings.load_profile("untimed")


@pytest.fixture
def simulated(tmp_path: Path) -> Callable[..., Run]:
    """Simulate one tiny job (its fields given) below a temporary folder; returns the run."""

    def make(folder: str = "run", **wishes: Any) -> Run:
        return simulate_one(tmp_path / folder, **wishes)

    return make

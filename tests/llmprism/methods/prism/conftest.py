"""What the tests of the method share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import prism_sim as ps


@pytest.fixture
def scored(tmp_path: Path) -> Callable[..., ps.RunResult]:
    """Simulate, diagnose and score the world of a YAML text with a seed."""

    def run(text: str, seed: int = 1) -> ps.RunResult:
        (tmp_path / "world.yaml").write_text(text)
        return ps.run(tmp_path / "world.yaml", out=tmp_path / "run", seed=seed)

    return run

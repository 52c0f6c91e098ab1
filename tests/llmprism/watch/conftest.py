"""A job with one slow replica, and a folder in which its records arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from small_jobs import make_world
from watching import Watched

SLOW = {(1, step): 1.5 for step in range(14, 18)}


@pytest.fixture
def world() -> Any:
    """A job whose replica 1 is slow in the steps 14 to 17 of 34."""
    return make_world(steps=34, slow=SLOW, jitter=0.01)


@pytest.fixture
def watched(tmp_path: Path, world: Any) -> Watched:
    """A folder that is watched; its topology is that of the world."""
    one = Watched(tmp_path / "watched")
    one.begin(world.topology)
    return one

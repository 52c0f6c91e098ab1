"""Scenarios written in the tests, and the complaints about them as (line, text) pairs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prism_common.errors import UserError
from prism_sim.toolkit import load_scenario

Complaints = Callable[..., list[tuple[int | str, str]]]


@pytest.fixture
def complaints(tmp_path: Path) -> Complaints:
    """Load a text as a scenario that must be refused; return its mistakes in order."""

    def of(text: str, overrides: dict[str, Any] | None = None) -> list[tuple[int | str, str]]:
        path = tmp_path / "world.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError) as caught:
            load_scenario(path, overrides)
        places = [problem.where.removeprefix(f"{path}:") for problem in caught.value.problems]
        whats = [f"{problem.what} ({problem.how})" for problem in caught.value.problems]
        lines = [int(place) if place.isdecimal() else place for place in places]
        return list(zip(lines, whats, strict=True))

    return of

"""What a diagnosis without an error scores."""

from __future__ import annotations

from typing import Any


def assert_exact(score: dict[str, Any], dp_end: float = 0.003) -> None:
    """Jobs, pairs and steps are right, and ends of data parallelism within a share of a step."""
    timeline = score["timeline"]
    assert score["jobs"]["accuracy"] == 1
    assert score["pairs"]["accuracy"] == 1
    assert timeline["coverage"] == 1
    assert timeline["steps_unexplained"] == 0
    assert timeline["dp_end_error_mean"] <= dp_end

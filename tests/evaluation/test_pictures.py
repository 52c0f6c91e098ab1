"""The pictures of docs/prism.md are drawn from what the method finds, and the same each time."""

from __future__ import annotations

import pytest

from evaluation.ideas.drawing import PICTURES, content
from evaluation.ideas.scenes import scene


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_from_its_scenario(name: str) -> None:
    scenario, draw = PICTURES[name]
    drawn = content(draw(scene(scenario)))
    assert drawn.startswith(b"\x89PNG")
    assert drawn == content(draw(scene(scenario)))


@pytest.mark.parametrize("name", ["faults/slow-server", "faults/hang"])
def test_a_scene_has_what_the_search_for_findings_starts_from(name: str) -> None:
    shown = scene(name)
    assert shown.job.count > 0
    assert shown.findings["culprit"].str.startswith(("s0005", "10.0.5.2")).all()

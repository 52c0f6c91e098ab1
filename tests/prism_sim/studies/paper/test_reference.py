"""The committed page has every experiment, and its pictures are there."""

import re
from pathlib import Path

from prism_sim.studies.paper import EXPERIMENTS

PAGE = Path(__file__).resolve().parents[4] / "results" / "reference" / "paper.md"


def test_the_committed_page_is_whole() -> None:
    text = PAGE.read_text()
    for one in EXPERIMENTS.values():
        section = text.split(f"\n## {one.title}\n")[1].split("\n## ")[0]
        assert "failed:" not in section
        assert "\n| " in section
    assert "Reduced form" not in text
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len([link for link in links if link.endswith(".png")]) >= 6
    for link in links:
        assert (PAGE.parent / link).exists(), link

"""The committed page has every experiment and the text of its templates; its files exist."""

import re
from pathlib import Path

from reproduction import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "results" / "reference" / "paper.md"
FOLDERS = ("benchmarks", "diagnose", "docs", "evaluation", "results", "scenarios", "sim", "tests")
"""Folders at the top of the repository."""


def test_the_committed_page_is_complete() -> None:
    text = PAGE.read_text()
    for one in EXPERIMENTS.values():
        section = text.split(f"\n## {one.title}\n")[1].split("\n## ")[0]
        assert "failed:" not in section
        assert "\n| " in section
    assert "Reduced form" not in text
    links = re.findall(r"\]\(([^)]+)\)", text)
    for link in links:
        assert (PAGE.parent / link).exists(), link


def test_files_that_the_pages_name_exist() -> None:
    """Paths such as `scenarios/paper/e1.yaml`, alone, in a command, or with a star."""
    named = {
        (page.name, word)
        for page in PAGE.parent.glob("*.md")
        for quoted in re.findall(r"`([^`\n]+)`", page.read_text())
        for word in quoted.split()
        if word.partition("/")[0] in FOLDERS and "/" in word
    }
    assert ("captures.md", "evaluation/reference/captures.py") in named
    assert [one for one in sorted(named) if not any(ROOT.glob(one[1].rstrip("/")))] == []

"""The committed page has every experiment; pictures and files that pages name are there."""

import re
from pathlib import Path

from reproduction import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "results" / "reference" / "paper.md"
FOLDERS = ("benchmarks", "diagnose", "docs", "results", "scenarios", "scripts", "sim", "tests")
"""What a path into the repository begins with."""


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


def test_files_that_the_pages_name_exist() -> None:
    """`scenarios/paper/e1.yaml` and the like, alone, in a command, or with a star."""
    named = {
        (page.name, word)
        for page in PAGE.parent.glob("*.md")
        for quoted in re.findall(r"`([^`\n]+)`", page.read_text())
        for word in quoted.split()
        if word.partition("/")[0] in FOLDERS and "/" in word
    }
    assert ("captures.md", "scripts/reference.py") in named
    assert [one for one in sorted(named) if not any(ROOT.glob(one[1].rstrip("/")))] == []

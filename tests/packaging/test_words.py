"""One term for one thing: names and pages use the words of docs/nomenclature.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
SOURCES = [path for top in ("sim", "diagnose") for path in (ROOT / top).rglob("*.py")]


def _section(page: str, title: str) -> str:
    return page.split(f"## {title}\n")[1].split("\n## ")[0]


NOMENCLATURE = (ROOT / "docs/nomenclature.md").read_text(encoding="utf-8")
UNUSED = _section(NOMENCLATURE, "Words that are not used")
BANNED = {
    word.strip()
    for line in UNUSED.splitlines()[4:]
    if line.startswith("| ") and not line.startswith(("| not", "|---"))
    for word in re.sub(r"\(.*?\)", "", line.split("|")[1]).split(",")
}


def words_of(name: str) -> set[str]:
    """The words of an identifier, plurals without their s."""
    words = re.findall(r"[a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower())
    return {*words, *(word.removesuffix("s") for word in words)}


def names_of(path: Path) -> set[str]:
    """Identifiers that a source file uses, and its own name."""
    names = {path.stem}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


def test_the_list_is_read() -> None:
    assert {"meeting", "crew", "small talk", "struck", "strike", "lives"} <= BANNED
    assert words_of("_meeting_offers") >= {"meeting", "offer"}


def test_no_identifier_is_a_private_word() -> None:
    single = {word for word in BANNED if " " not in word}
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for name in names_of(path)
        if words_of(name) & single
    }
    assert found == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_uses_a_private_word(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace(UNUSED, "")
    written = rf"\b({'|'.join(sorted(BANNED))})s?\b"
    found = re.findall(written, text.replace("\n", " "), re.IGNORECASE)
    assert found == []


def test_units_of_the_scenario_are_in_the_list() -> None:
    from prism_sim.loading.writing import json_schema

    suffixes = set(re.findall(r"`(_\w+)`", _section(NOMENCLATURE, "Units")))
    named = set(re.findall(r'"\w+(_(?:ns|us|ms|s|bytes|gbps|gbytes_per_s|tflops|ppm|min|hours))"',
                           str(json_schema()).replace("'", '"')))  # fmt: skip
    assert named <= suffixes

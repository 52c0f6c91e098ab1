"""One term for one thing: names, texts and pages use the words of docs/nomenclature.md."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("sim", "diagnose", "evaluation", "reproduction", "benchmarks", "lab", "tests")
SOURCES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path != Path(__file__)  # it has the words that are not used
]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "results" / "reference").glob("*.md"),
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md")),
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.j2")),
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.cpp")),
    ROOT / "Makefile",
    ROOT / "pyproject.toml",
]
YAML = [
    path
    for folder in ("scenarios", *FOLDERS)
    for path in sorted((ROOT / folder).rglob("*.yaml"))
    if "fixtures" not in path.parts
]


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
SINGLE = {word for word in BANNED if " " not in word}
WRITTEN = re.compile(rf"\b({'|'.join(sorted(BANNED))})(e?s)?\b", re.IGNORECASE)


def words_of(name: str) -> set[str]:
    """The words of an identifier, plurals also without their ending."""
    words = re.findall(r"[a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower())
    return {*words, *(word.removesuffix(ending) for word in words for ending in ("s", "es"))}


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


def texts_of(path: Path) -> Iterator[str]:
    """Comments, docstrings and messages of a source file."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def found_in(text: str) -> list[str]:
    return [match[0] for match in WRITTEN.finditer(" ".join(text.split()))]


def test_the_list_is_read() -> None:
    assert {"meeting", "crew", "small talk", "struck", "strike", "lives", "told"} <= BANNED
    assert words_of("_meeting_offers_wishes") >= {"meeting", "offer", "wish"}
    assert found_in("Small\n  talk of crews, wishes and a command") == [
        "Small talk",
        "crews",
        "wishes",
    ]


def test_every_folder_is_covered() -> None:
    for folder in FOLDERS:
        assert any(path.is_relative_to(ROOT / folder) for path in SOURCES), folder
    for part in ("results/reference/paper.md", "benchmarks/README.md", "evaluation/templates"):
        assert any(path.is_relative_to(ROOT / part) for path in PAGES), part
    assert len(YAML) > 90


def test_no_identifier_is_a_private_word() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for name in names_of(path)
        if words_of(name) & SINGLE
    }
    assert found == set()


def test_no_comment_docstring_or_message_uses_a_private_word() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {word}"
        for path in SOURCES
        for text in texts_of(path)
        for word in found_in(text)
    }
    assert found == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_uses_a_private_word(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace(UNUSED, "")
    assert found_in(text) == []


def test_no_comment_of_a_scenario_uses_a_private_word() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {word}"
        for path in YAML
        for word in found_in(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_units_of_the_scenario_are_in_the_list() -> None:
    from prism_sim.commands.schemas import Language, schema_of

    suffixes = set(re.findall(r"`(_\w+)`", _section(NOMENCLATURE, "Units")))
    named = set(re.findall(r'"\w+(_(?:ns|us|ms|s|bytes|gbps|gbytes_per_s|tflops|ppm|min|hours))"',
                           str(schema_of(Language.scenario)).replace("'", '"')))  # fmt: skip
    assert named <= suffixes

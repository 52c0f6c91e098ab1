"""Worker processes begin as new interpreters: a copy of a process with threads may hang."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "diagnose", "evaluation", "lab", "reproduction", "sim", "tests")
MAKERS = {"ProcessPoolExecutor", "Pool"}


def copies(source: str) -> Iterator[str]:
    """Yield the calls that may copy this process: those that do not name how it begins."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        named = {keyword.arg for keyword in node.keywords}
        text = ast.unparse(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        is_of_context = isinstance(node.func, ast.Attribute) and "spawn" in text
        if name in MAKERS and "mp_context" not in named and not is_of_context:
            yield text
        if name in {"get_context", "set_start_method"} and "spawn" not in text:
            yield text


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_program_copies_its_process(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {call}"
        for path in (ROOT / folder).rglob("*.py")
        for call in copies(path.read_text(encoding="utf-8"))
    }
    assert not found, found


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("ProcessPoolExecutor(2)", 1),
        ("ProcessPoolExecutor(2, mp_context=context)", 0),
        ("multiprocessing.Pool()", 1),
        ("get_context('spawn').Pool()", 0),
        ("get_context('fork')", 1),
    ],
)
def test_a_copy_of_the_process_is_found(source: str, count: int) -> None:
    assert len(list(copies(source))) == count

"""Examples in docstrings, and limits of numbers."""

from __future__ import annotations

import ast
import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sizes import module_name, sources

MODULES = [
    module_name(path)
    for path, text in sources().items()
    if ">>> " in text and not path.startswith("tests/")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


INSIDE = Path(__file__).parents[2] / "diagnose" / "llmprism" / "methods" / "prism"
PARAMETERS, NUMBERS = 66, 290
"""What there is today. The aim is 60 numbers, all in parameters.py."""

SEARCH = ("graph", "culprits", "alike.py", "normal.py", "findings.py", "search.py", "persistent.py")


def modules(*parts: str) -> list[Path]:
    """The modules of some packages, or of the whole method."""
    roots = [INSIDE / part for part in parts] or [INSIDE]
    return sorted(
        path for root in roots for path in ([root] if root.suffix else root.rglob("*.py"))
    )


def numbers_in(path: Path) -> Iterator[str]:
    """Assignments of a module that hold a number."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            values = [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
            if any(isinstance(value, (int, float)) for value in values):
                yield ast.unparse(node)


def test_no_more_numbers_are_chosen_than_before() -> None:
    others = [path for path in modules() if path.name != "parameters.py"]
    assert sum(len([*numbers_in(path)]) for path in others) <= NUMBERS


def test_every_parameter_has_its_reason() -> None:
    body = ast.parse((INSIDE / "parameters.py").read_text(encoding="utf-8")).body
    values = 0
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign):
            assert isinstance(after, ast.Expr), ast.unparse(node)
            values += sum(isinstance(one, ast.Constant) for one in ast.walk(node.value))
    assert values <= PARAMETERS


@pytest.mark.parametrize("path", modules(*SEARCH), ids=lambda path: path.name)
def test_no_finding_is_made_from_the_text_of_another(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "json.loads" not in text
    assert ".evidence[" not in text
    assert ".evidence.get" not in text

"""What makes code hard to read may only become rarer: vague names, bare numbers, tiny files.

Each bound is what there was when it was last lowered. A change that raises a share gives names
that tell things apart, or puts a number where its meaning stands; then it lowers the bound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VAGUE = {"one", "own", "other", "others", "found", "shown", "brought", "thing", "things", "it"}
"""Words of one letter class, which do not tell things apart (CONTRIBUTING.md)."""
TINY_LINES = 50


@dataclass(frozen=True)
class Shares:
    """Of a package, in thousandths: vague words in names, numbers in lines, tiny files in files."""

    vague: float
    numbers: float
    tiny: float


BOUNDS = {
    "sim/prism_sim": Shares(17.5, 10.5, 220),
    "diagnose/llmprism": Shares(68, 25.5, 170),
    "diagnose/llmlog": Shares(38, 22, 230),
    "diagnose/prism_common": Shares(24, 13, 450),
}


def names_in(tree: ast.AST) -> Iterator[str]:
    """Every name that a module gives: to values, parameters, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def numbers_in(tree: ast.Module) -> int:
    """How many values of a module are numbers that were chosen by hand."""
    values = (node.value for node in tree.body if isinstance(node, ast.Assign))
    parts = (part for value in values for part in ast.walk(value))
    return sum(type(getattr(part, "value", None)) in (int, float) for part in parts)


@cache
def shares(package: str) -> Shares:
    """The shares of today."""
    paths = sorted((ROOT / package).rglob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    trees = [ast.parse(text) for text in texts]
    words = [word for tree in trees for name in names_in(tree) for word in name.split("_") if word]
    lines = [len(text.splitlines()) for text in texts]
    return Shares(
        vague=1000 * sum(word in VAGUE for word in words) / len(words),
        numbers=1000 * sum(map(numbers_in, trees)) / sum(lines),
        tiny=1000 * sum(count < TINY_LINES for count in lines) / len(lines),
    )


@pytest.mark.parametrize("package", BOUNDS)
@pytest.mark.parametrize("share", ["vague", "numbers", "tiny"])
def test_a_share_may_only_fall(package: str, share: str) -> None:
    assert getattr(shares(package), share) <= getattr(BOUNDS[package], share)


def test_what_is_counted() -> None:
    tree = ast.parse("LIMITS = 3, 4.5\nFLAG = True\n\n\ndef found_one(other_ns):\n    own = 1\n")
    assert numbers_in(tree) == 2
    words = [word for name in names_in(tree) for word in name.split("_")]
    assert sorted(set(words) & VAGUE) == ["found", "one", "other", "own"]

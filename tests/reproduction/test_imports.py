"""The reproduction uses the public parts of both packages, and no others."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import prism_sim.toolkit as toolkit
from processes import completed

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {
    "prism_sim.toolkit",
    "prism_common.errors",
    "prism_common.files",
    "llmprism.io.flows",
    "llmprism.io.topology",
    "llmprism.io.writing",
    "llmprism.methods",
    "llmprism.methods.paper",
    "llmprism.methods.paper.sigma",
    "llmprism.model",
    "llmprism.pipeline",
}
"""Modules that ARCHITECTURE.md lists as public."""
OURS = ("llmprism", "prism_common", "prism_sim")


def imported(path: Path) -> set[str]:
    """Modules of either package that a file imports, functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = node.module in OURS
            found |= {f"{node.module}.{a.name}" for a in node.names} if whole else {node.module}
    return {name for name in found if name.split(".")[0] in OURS}


def test_only_public_modules_are_imported() -> None:
    files = list((ROOT / "reproduction").rglob("*.py"))
    assert files
    private = {path.name: imported(path) - PUBLIC for path in files}
    assert {name: found for name, found in private.items() if found} == {}


def test_public_modules_are_documented() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.split("## Public modules\n")[1].split("\n## ")[0]
    assert {name for name in PUBLIC if f"`{name}`" not in section} == set()


def test_every_part_of_the_toolkit_is_there_in_a_fresh_process(tmp_path: Path) -> None:
    for name in ("paint", "options", "Scenario"):  # two modules, and a class
        done = completed([sys.executable, "-c", f"from prism_sim.toolkit import {name}"], tmp_path)
        assert done.returncode == 0, done.stderr
    assert {name for name in toolkit.__all__ if getattr(toolkit, name) is None} == set()

"""Promises of the repository itself: declared imports, commands that run, figures that hold."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for top in ("sim", "diagnose", "lab") for path in (ROOT / top).rglob("*.py")]
OURS = {"prism_sim", "llmprism", "llmlog", "lab"}
DISTRIBUTION = {
    "yaml": "pyyaml", "google": "protobuf", "drain3": "drain3-improved", "sklearn": "scikit-learn"
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """Top-level names that a file imports from elsewhere."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").split(".")[0])
    return names - OURS - set(sys.stdlib_module_names)


def test_every_import_is_declared_with_a_floor():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    entries = project["dependencies"] + [
        e for name in sorted(extras) if name != "dev" for e in extras[name]
    ]
    floors = {re.split(r"[><=]", entry)[0].lower(): entry for entry in entries}
    assert all(">=" in entry for entry in floors.values())
    used = set().union(*(imported(path) for path in SOURCES))
    assert {DISTRIBUTION.get(name, name.replace("_", "-")) for name in used} == set(floors)


@pytest.mark.parametrize("path", sorted((ROOT / "diagnose").rglob("*.py")), ids=lambda p: p.name)
def test_the_diagnoser_does_not_know_the_simulator(path):
    assert "prism_sim" not in path.read_text()


def test_constraints_name_versions_and_no_host():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+", line) for line in lines)

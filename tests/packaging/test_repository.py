"""Promises of the repository itself: declared imports, commands that run, figures that hold."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from prism_common import version as shared
from prism_sim import __version__

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"llmprism": ROOT / "diagnose", "prism-sim": ROOT / "sim"}
PROJECTS = {"llmprism": ROOT / "diagnose" / "pyproject.toml", "prism-sim": ROOT / "pyproject.toml"}
OURS = {"prism_sim", "llmprism", "llmlog", "prism_common", "lab"}
TOOLS = ("dev", "docs")
"""Extras that no installed module imports."""
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


def project(name: str) -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads(PROJECTS[name].read_text())["project"]
    return content


def sources(name: str) -> Iterator[Path]:
    yield from FOLDERS[name].rglob("*.py")
    if name == "prism-sim":
        yield from (ROOT / "lab").rglob("*.py")


@pytest.mark.parametrize("name", PROJECTS)
def test_every_import_is_declared_with_a_floor(name: str) -> None:
    extras = project(name)["optional-dependencies"]
    entries = project(name)["dependencies"] + [
        e for extra in sorted(extras) if extra not in TOOLS for e in extras[extra]
    ]
    others = [entry for entry in entries if not entry.startswith("llmprism")]
    floors = {re.split(r"[><=]", entry)[0].lower(): entry for entry in others}
    assert all(">=" in entry for entry in floors.values())
    used = set().union(*(imported(path) for path in sources(name)))
    assert {DISTRIBUTION.get(one, one.replace("_", "-")) for one in used} == set(floors)


def test_both_distributions_are_of_one_release() -> None:
    version = project("llmprism")["version"]
    assert {version, __version__} == {project("prism-sim")["version"], shared.__version__}
    wanted = [*project("prism-sim")["dependencies"]]
    wanted += chain(*project("prism-sim")["optional-dependencies"].values())
    ours = [entry for entry in wanted if entry.startswith("llmprism")]
    assert all(entry.endswith(f"=={version}") for entry in ours)
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "diagnose" / "LICENSE").read_bytes()


@pytest.mark.parametrize("path", sorted((ROOT / "diagnose").rglob("*.py")), ids=lambda p: p.name)
def test_the_diagnoser_does_not_know_the_simulator(path):
    assert "prism_sim" not in path.read_text()


def test_constraints_name_versions_and_no_host():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+", line) for line in lines)

"""The contract of layers covers the whole of all packages, and has no exceptions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    "prism_sim": ROOT / "sim" / "prism_sim",
    "llmprism": ROOT / "diagnose" / "llmprism",
    "llmlog": ROOT / "diagnose" / "llmlog",
    "prism_common": ROOT / "diagnose" / "prism_common",
}


def _linter() -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    linter: dict[str, Any] = settings["tool"]["importlinter"]
    return linter


@pytest.mark.parametrize("package", SOURCES)
def test_every_module_and_package_has_a_layer(package: str) -> None:
    contract = next(c for c in _linter()["contracts"] if c.get("containers") == [package])
    layers = [name for layer in contract["layers"] for name in re.split(r"[ |:()]+", layer) if name]
    children = [path.stem for path in SOURCES[package].iterdir() if path.suffix == ".py"]
    children += [path.parent.name for path in SOURCES[package].glob("*/__init__.py")]
    there = set(children) - {"__init__", "__main__"}
    assert len(layers) == len(set(layers))
    assert there <= set(layers)
    assert contract["exhaustive"] is True


def test_imports_for_types_count_and_nothing_is_ignored() -> None:
    linter = _linter()
    assert linter["exclude_type_checking_imports"] is False
    for contract in linter["contracts"]:
        assert not contract.keys() & {"ignore_imports", "exhaustive_ignores"}


@pytest.mark.parametrize("package", SOURCES)
def test_the_linter_finds_every_file(package: str) -> None:
    """It passes over folders that are no regular packages, and all that they import."""
    folders = {path.parent for path in SOURCES[package].rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_no_package_may_have_a_circle_of_imports() -> None:
    circles = [c for c in _linter()["contracts"] if c["type"] == "acyclic_siblings"]
    assert {name for contract in circles for name in contract["ancestors"]} == set(SOURCES)
    assert not any(contract.keys() & {"depth", "skip_descendants"} for contract in circles)

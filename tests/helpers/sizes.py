"""How large the tree is: lines of Python, modules with one importer, tests of internals.

``python tests/helpers/sizes.py`` lowers the bounds in ``tests/packaging/sizes.json`` to the sizes
of today, and refuses to raise one.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
BOUNDS = ROOT / "tests" / "packaging" / "sizes.json"
PRISM = "diagnose/llmprism/methods/prism"
PACKAGES = {
    "prism_sim": "sim/prism_sim",
    "llmprism": "diagnose/llmprism",
    "llmlog": "diagnose/llmlog",
    "prism_common": "diagnose/prism_common",
    **{name: name for name in ("evaluation", "reproduction", "lab", "benchmarks", "docs")},
    "methods/prism": PRISM,
}
PUBLIC = {
    "prism_sim": {"plugins", "families", "toolkit", "api", "cli", "pytest_plugin"},
    "llmprism": {
        "pipeline",
        "io",
        "methods",
        "model",
        "cli",
        "ingest",
        "network",
        "watch",
        "counters",
        "collectives",
        "together",
        "page",
    },
    "llmlog": {"cli", "diagnosis", "tables", "page"},
    "prism_common": {"errors", "files", "folders", "untrusted", "escapes"},
}
"""Modules that a test may import without knowing the inside of a package, apart from prism's."""


@cache
def sources() -> dict[str, str]:
    """The text of every Python file that git tracks or would track, by its path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = sorted({name for name in listed.splitlines() if (ROOT / name).is_file()})
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in paths}


def module_name(path: str) -> str:
    """The dotted name under which the file is imported."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(parts[1:] if parts[0] in ("sim", "diagnose") else parts)


def imports(text: str) -> Iterator[str]:
    """Dotted names that a module imports, with the names taken from a package."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def modules() -> set[str]:
    """The dotted names of all modules outside tests."""
    return {module_name(path) for path in sources() if not path.startswith("tests/")}


def is_private(name: str) -> bool:
    """Whether an import reaches a module that its package does not make public."""
    package, *rest = name.split(".")
    if package not in PUBLIC or f"{package}.{'.'.join(rest[:1])}" not in modules():
        return False  # what a package itself gives, such as llmprism.diagnose
    return name.startswith("llmprism.methods.prism.") or rest[0] not in PUBLIC[package]


@cache
def sizes() -> dict[str, int]:
    """Every figure of the ratchet, today."""
    lines = {path: len(text.splitlines()) for path, text in sources().items()}
    tests = {path for path in lines if path.startswith("tests/")}
    used: Counter[str] = Counter()
    for path in lines.keys() - tests:
        used.update({name for name in imports(sources()[path]) if name in modules()})
    figures = {
        "lines outside tests": sum(lines[path] for path in lines.keys() - tests),
        "lines of tests": sum(lines[path] for path in tests),
        "files of methods/prism": sum(path.startswith(f"{PRISM}/") for path in lines),
        "modules with one importer": sum(used[name] == 1 for name in modules()),
        "tests that name private modules": sum(
            any(map(is_private, imports(sources()[path]))) for path in tests
        ),
    }
    for name, folder in PACKAGES.items():
        figures[f"lines of {name}"] = sum(
            count for path, count in lines.items() if path.startswith(f"{folder}/")
        )
    return figures


def bounds() -> dict[str, int]:
    """The bounds as they are kept."""
    kept: dict[str, int] = json.loads(BOUNDS.read_text(encoding="utf-8"))
    return kept


def main() -> None:
    """Lower the bounds to today's sizes."""
    today = sizes()
    before = bounds() if BOUNDS.exists() else today
    above = {name: size for name, size in today.items() if size > before[name]}
    if above:
        sys.exit("\n".join(f"{name}: {size}, bound {before[name]}" for name, size in above.items()))
    BOUNDS.write_text(json.dumps(today, indent=2) + "\n", encoding="utf-8")
    for name, size in today.items():
        print(f"{name:40} {before[name]:8} -> {size:8}")


if __name__ == "__main__":
    main()

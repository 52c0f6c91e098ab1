"""Results of one method under a label, in a file: what a paired comparison reads.

The label names a state of the code: by default the commit, with a ``+`` for changes that were not
committed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.exam.worlds import RESULTS
from prism_common.errors import Problem, UserError
from prism_common.files import replacing

FOLDER = "labels"
USUAL = "prism"
"""The method of a label that names none."""


@dataclass(frozen=True)
class Saved:
    """The results of ``method`` on worlds of the set ``of``, with the code of ``label``."""

    label: str
    method: str
    of: str
    results: list[dict[str, Any]]


def save(saved: Saved, kept: Path = RESULTS) -> Path:
    """Write results; those of the same label, method and set are replaced."""
    path = _path(kept, f"{saved.label}.{saved.method}", saved.of)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(json.dumps(asdict(saved)), encoding="utf-8")
    return path


def read(name: str, kept: Path = RESULTS) -> Saved:
    """Results by their file, or by ``LABEL`` or ``LABEL.METHOD``; those of `develop` go first.

    Raises
    ------
    UserError : there are none.
    """
    names = [name, f"{name}.{USUAL}"]
    paths = [_path(kept, one, of) for one in names for of in ("develop", "exam")]
    for path in (Path(name), *paths):
        if path.is_file():
            return Saved(**json.loads(path.read_text(encoding="utf-8")))
    there = ", ".join(sorted(path.stem for path in (kept / FOLDER).rglob("*.json"))) or "none"
    how = f"measure them: python -m evaluation measure --label {name}; there are: {there}"
    raise UserError(Problem(f"no results {name}", str(kept / FOLDER), how))


def _path(kept: Path, name: str, of: str) -> Path:
    return kept / FOLDER / of / f"{name}.json"

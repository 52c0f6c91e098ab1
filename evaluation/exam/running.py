"""Runs the exam: every world and method is a piece of work, each result in a file of its own.

A result is kept under a key of all that it depends on: the code of the packages, the code of the
measures, the scenario, and the method. An interrupted run continues where it stopped, and another
method, or more worlds, repeat nothing.

For paired comparisons, results of one method are saved under a label that names a state of the
code: by default the commit, with a ``+`` for changes that were not committed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.exam import answers, measuring, truth
from evaluation.exam.measuring import Row, Task
from evaluation.exam.worlds import RESULTS, World, families
from prism_common.errors import Problem, UserError
from prism_common.files import replacing
from prism_sim.toolkit import Content, Piece, default_processes, fingerprint, kept_results

FOLDER = "labels"
USUAL = "prism"
"""The method of a label that names none."""


def results_of(
    asked: Sequence[World],
    methods: Sequence[str],
    kept: Path = RESULTS,
    processes: int | None = None,
) -> list[Row]:
    """The result of every world, in order; missing ones are computed.

    A world that could not be measured is reported and left out.
    """
    found = kept_results(
        measuring.measure,
        [piece for method in methods for piece in pieces(asked, method, kept)],
        kept / "kept",
        processes or default_processes(),
        lambda _, text: print(text, file=sys.stderr),
    )
    joined = [_joined(found[at :: len(asked)]) for at in range(len(asked))]
    return [row for row in joined if row is not None]


def pieces(asked: Iterable[World], method: str, kept: Path = RESULTS) -> Iterator[Piece[Task]]:
    """The work for each of the worlds with one method."""
    for world in asked:
        name = f"{method} {world.family} {world.seed}"
        yield Piece(_key(world, method), name, Task(world, method, kept))


def _joined(found: Sequence[Content]) -> Row | None:
    """The result of one world with the grades of all methods; None if one could not be measured."""
    for one in found:
        if "error" in one:
            print(f"left out: {one['case']}: {one['error']}", file=sys.stderr)
            return None
    grades = {method: row for one in found for method, row in one["result"]["methods"].items()}
    first: Row = found[0]["result"]
    return first | {"methods": grades}


def _key(world: World, method: str) -> str:
    family = families()[world.family].model_dump(mode="json")
    measures = [Path(str(module.__file__)).read_text() for module in (measuring, truth, answers)]
    text = json.dumps([fingerprint(), measures, family, world.seed, method], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


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

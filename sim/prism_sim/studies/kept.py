"""Work that is kept: every finished piece is a small file, and is never done twice.

A piece goes by a key of all that its result rests on. What was stopped, by Ctrl-C or by the
machine, finds the pieces that were finished and does the others; a piece that fails is kept
as its error, and the rest goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from llmprism.io.writing import replacing
from prism_sim.run import Run
from prism_sim.studies.pool import outcomes

T = TypeVar("T")

Content = dict[str, Any]
"""Content of a piece's file: ``case``, its name, and what the work gave, or ``error``."""


@dataclass(frozen=True)
class Piece(Generic[T]):
    """One thing to be done: its ``key``, what to call it, and what the work is called with."""

    key: str
    name: str
    task: T


def do_missing(
    work: Callable[[T], Content],
    pieces: Iterable[Piece[T]],
    folder: Path,
    processes: int,
    told: Callable[[float, str], None] | None = None,
    retry: bool = False,
) -> tuple[int, int]:
    """Do what is not yet in ``folder``; returns how many were done, and how many were there.

    Parameters
    ----------
    work : a function at the top level of a module; gives the content of the piece's file.
    folder : the files are ``<folder>/<key>.json``.
    retry : do again what failed.
    """
    wanted = {piece.key: piece for piece in pieces}
    missing = [piece for piece in wanted.values() if not _is_done(folder, piece.key, retry)]
    tasks = [(work, piece, str(folder)) for piece in missing]
    for done, ((_, piece, _), outcome) in enumerate(outcomes(_do, tasks, processes), 1):
        if outcome.error is not None:
            _write(folder, piece, {"error": outcome.error})
        if told:
            there = len(wanted) - len(missing) + done
            told(there / len(wanted), f"{there} of {len(wanted)}: {piece.name}")
    return len(missing), len(wanted) - len(missing)


def content(folder: Path, key: str) -> Content:
    """What is kept under ``key``; a UserError if there is nothing."""
    return Run(folder).read_json(_file(folder, key))


def _do(task: tuple[Callable[[T], Content], Piece[T], str]) -> None:
    work, piece, folder = task
    _write(Path(folder), piece, work(piece.task))


def _write(folder: Path, piece: Piece[Any], result: Content) -> None:
    with replacing(_file(folder, piece.key)) as partial:
        partial.write_text(json.dumps({"case": piece.name, **result}, indent=1) + "\n")


def _file(folder: Path, key: str) -> Path:
    return folder / f"{key}.json"


def _is_done(folder: Path, key: str, retry: bool) -> bool:
    return _file(folder, key).exists() and not (retry and "error" in content(folder, key))

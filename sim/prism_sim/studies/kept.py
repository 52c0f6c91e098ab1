"""Saved results: every finished piece of work is a small file, and is not repeated.

A piece is identified by a key of everything that its result depends on. After an interruption, the
finished pieces are found and only the others run. If a piece fails, its error is saved and the
rest continues. A file that is empty, truncated or without a result counts as missing, and what the
result must look like says the work. Files that are no pieces are nobody's of ours: such a folder is
refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from prism_common.errors import Problem, UserError
from prism_common.files import is_running, json_object, write_json
from prism_common.folders import is_regular
from prism_sim.products import adopt, exclusive, refuse_to_replace
from prism_sim.run_folder import Run
from prism_sim.studies.pool import Processes, Remaining, Workers

T = TypeVar("T")

Content = dict[str, Any]
"""Content of a piece's file: ``case``, its name, and the result, or ``error``."""

_PIECE = re.compile(r"[0-9a-f]{24}\.json")
_PARTIAL = re.compile(r"\.[0-9a-f]+\.json\.(\d+)(?:-\d+)?\.partial")
"""Name of a piece's file while the process with that number writes it."""
_NO_RESULT = "the work gave no result"


@dataclass(frozen=True)
class Piece(Generic[T]):
    """One piece of work: its ``key``, its name, and the argument of the work."""

    key: str
    name: str
    task: T


def do_missing(
    work: Callable[[T], Content],
    pieces: Iterable[Piece[T]],
    folder: Path,
    processes: int,
    progress: Callable[[float, str], None] | None = None,
    retry: bool = False,
    *,
    total: int,
    result: str,
    is_result: Callable[[Any], bool] = bool,
    workers: Workers | None = None,
) -> tuple[int, int]:
    """Do the missing pieces; returns the numbers of new and of existing ones.

    Workers return results, and only this process writes files. So a worker may be on a machine
    that does not have the folder.

    Parameters
    ----------
    work : a function at the top level of a module; returns the content of the piece's file.
    pieces : read one by one as they are needed, so there may be many.
    folder : the files are ``<folder>/<key>.json``.
    processes : parallel processes of this machine, unless ``workers`` are given.
    progress : called with the fraction done and a sentence.
    retry : repeat failed pieces.
    total : number of ``pieces``.
    result : the key of the result in the content of a finished piece.
    is_result : whether what is found under that key is a result.
    workers : do the work; processes of this machine if left out.
    """
    _remove_partial(folder)
    there: list[str] = []
    tasks = (
        (work, piece)
        for piece in _once(pieces)
        if not _is_done(folder, piece, result, is_result, retry, there)
    )
    done, remaining = 0, Remaining()
    for (_, piece), outcome in (workers or Processes(processes)).outcomes(_do, tasks):
        done += 1
        _write(folder, piece, outcome.result or {"error": outcome.error or _NO_RESULT})
        if progress:
            finished = len(there) + done
            left = remaining.sentence(done, total - finished)
            progress(finished / total, f"{finished} of {total}{left}: {piece.name}")
    return done, len(there)


def results_of(
    work: Callable[[T], Content],
    pieces: Sequence[Piece[T]],
    folder: Path,
    processes: int,
    progress: Callable[[float, str], None] | None = None,
    retry: bool = False,
    *,
    result: str = "result",
    is_result: Callable[[Any], bool] = bool,
) -> list[Content]:
    """The contents of all pieces, in order, after :func:`do_missing`."""
    do_missing(
        work, pieces, folder, processes, progress, retry,
        total=len(pieces), result=result, is_result=is_result,
    )  # fmt: skip
    return [content(folder, piece.key) for piece in pieces]


def content(folder: Path, key: str) -> Content:
    """Content of the file under ``key``; a UserError if there is none."""
    return Run(folder).read_json(_file(folder, key))


def refuse_foreign_pieces(folder: Path) -> None:
    """Raise a UserError if anything but pieces is where pieces belong."""
    there = [folder] if os.path.lexists(folder) else []
    is_ours = folder.is_dir() and not folder.is_symlink()
    foreign = [path for path in (folder.iterdir() if is_ours else there) if not _is_piece(path)]
    if foreign:
        what = "prism-sim did not write this, and the points of a study belong here"
        how = "move it away, or name another folder with --out"
        raise UserError(Problem(what, str(min(foreign)), how))


def _is_piece(path: Path) -> bool:
    """Whether a file has the name of a piece, complete or while it is written."""
    is_name = _PIECE.fullmatch(path.name) or _PARTIAL.fullmatch(path.name)
    return is_name is not None and is_regular(path)


def is_figures(value: Any) -> bool:
    """Whether ``value`` has figures by name: finite numbers, or null where there is none."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(one is None or _is_finite(one) for one in value.values())
    )


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < float("inf")


def _once(pieces: Iterable[Piece[T]]) -> Iterator[Piece[T]]:
    """``pieces`` without repeated keys."""
    known: set[str] = set()
    for piece in pieces:
        if piece.key not in known:
            known.add(piece.key)
            yield piece


def _do(task: tuple[Callable[[T], Content], Piece[T]]) -> Content:
    work, piece = task
    return work(piece.task)


def _write(folder: Path, piece: Piece[Any], result: Content) -> None:
    write_json(_file(folder, piece.key), {"case": piece.name, **result})


def _file(folder: Path, key: str) -> Path:
    return folder / f"{key}.json"


def _is_done(
    folder: Path,
    piece: Piece[Any],
    result: str,
    is_result: Callable[[Any], bool],
    retry: bool,
    there: list[str],
) -> bool:
    """Whether the file of a piece has a result (or an error); if so, the key joins ``there``."""
    found = json_object(_file(folder, piece.key))
    error = found.get("error")
    is_failed = isinstance(error, str) and bool(error)
    done = not retry if is_failed else not error and is_result(found.get(result))
    if done:
        there.append(piece.key)
    return done


def _remove_partial(folder: Path) -> None:
    """Remove partial files of killed processes."""
    for path in folder.glob(".*.partial"):
        match = _PARTIAL.fullmatch(path.name)
        if match and not is_running(int(match[1])):
            path.unlink(missing_ok=True)


@contextmanager
def study_folder(
    folder: Path, pieces: str, files: Sequence[str], stage: str, is_older: Callable[[Path], bool]
) -> Iterator[None]:
    """Be the only process that writes into the folder of a study.

    Parameters
    ----------
    pieces : name of the folder in it that has its kept pieces.
    files, stage : what it writes beside these, and the stage that does.
    is_older : whether the files are those of a study from before records existed.

    Raises
    ------
    UserError : the folder has files under our names that prism-sim did not write.
    """
    with exclusive(folder):
        refuse_foreign_pieces(folder / pieces)
        if is_older(folder):
            adopt(folder, {name: stage for name in files if (folder / name).is_file()})
        refuse_to_replace(folder, files)
        yield

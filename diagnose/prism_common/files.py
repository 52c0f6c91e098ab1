"""Files that are whole or not there, and that replace only what the program itself wrote."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from prism_common.errors import Problem, UserError

DRAFT = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)(?:-\d+)?\.partial")
"""Name of a file that :func:`replacing` has begun, with the number of its process."""
_LARGEST_MBYTES = 64
"""A file that is larger is no page or picture of ours."""


def resolved(path: Path | str) -> Path:
    """``path`` as an absolute path without links; where links lead in a circle, the first of them.

    ``Path.resolve`` raises an error there, which is another one in each version of Python.
    """
    return Path(os.path.realpath(path))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path`` that replaces it only if the block succeeds.

    An interrupted run leaves no incomplete file; what a killed one has left is removed by the next
    that writes the same file. A link at ``path`` is replaced, not followed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left_over in _left_over(path.parent).get(path.name, ()):
        _remove_abandoned(left_over)
    partial, lock = _draft(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
        os.close(lock)


def _draft(path: Path) -> tuple[Path, int]:
    """A new, empty and locked file next to ``path``, and its descriptor."""
    number = 0
    while True:
        mark = f"{os.getpid()}-{number}" if number else f"{os.getpid()}"
        draft = path.with_name(f".{path.name}.{mark}.partial")
        try:
            lock = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        except FileExistsError:  # of a process that was killed, or of another program
            number += 1
        else:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            return draft, lock


@cache
def _left_over(folder: Path) -> dict[str, list[Path]]:
    """Drafts in ``folder`` when this process first wrote there, by the name of their file."""
    drafts: dict[str, list[Path]] = {}
    for path in folder.glob(".*.partial"):
        if match := DRAFT.fullmatch(path.name):
            drafts.setdefault(match["name"], []).append(path)
    return drafts


def _remove_abandoned(draft: Path) -> None:
    """Remove a draft that no running process writes, on this machine or another."""
    match = DRAFT.fullmatch(draft.name)
    if match is None or is_running(int(match["process"])):
        return
    with suppress(OSError):  # gone, a link, or locked
        lock = os.open(draft, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()
        finally:
            os.close(lock)


def is_running(process: int) -> bool:
    """Whether a process with this number exists; also of another user."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def made_by(program: str) -> str:
    """The mark of a page, a picture or another single file of ``program``."""
    return f"made by {program}"


def is_foreign(path: Path, program: str) -> bool:
    """Whether something is at ``path`` that ``program`` did not make: it lacks the mark."""
    if not path.exists():
        return path.is_symlink()
    if not path.is_file() or path.stat().st_size > _LARGEST_MBYTES * 10**6:
        return True
    content = path.read_bytes()
    page = f'<meta name="generator" content="{program}">'
    return bool(content) and not any(mark.encode() in content for mark in (page, made_by(program)))


def refuse_foreign(path: Path | None, program: str, option: str) -> None:
    """Raise a UserError if there is a file at ``path`` that ``program`` did not make.

    ``path`` was named with ``option``; None: it was left out.
    """
    if path is not None and is_foreign(path, program):
        how = f"move it away, or name another file with {option}"
        what = f"{program} did not write this file, and will not replace it"
        raise UserError(Problem(what, str(path), how))


def json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing or contains something else."""
    if not path.is_file():  # a pipe would never end
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def write_json(path: Path, content: Mapping[str, Any], allow_nan: bool = True) -> None:
    """Write a JSON document as a whole, or not at all."""
    with replacing(path) as partial:
        text = json.dumps(content, indent=1, allow_nan=allow_nan) + "\n"
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing_marked(path: Path, program: str, option: str) -> Iterator[Path]:
    """:func:`replacing` for a single file, which :func:`refuse_foreign` allows.

    What is written has the mark :func:`made_by` of ``program``, or is a page that names it as its
    generator.
    """
    refuse_foreign(path, program, option)
    with replacing(path) as partial:
        yield partial

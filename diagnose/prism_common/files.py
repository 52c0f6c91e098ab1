"""Files that are whole or not there, and that replace only what the program itself wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HEAD = 1000
"""Characters of a page that contain the mark of its program."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path`` that replaces it only if the block succeeds.

    An interrupted run leaves no incomplete file. A link at ``path`` is replaced, not followed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _draft(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _draft(path: Path) -> Path:
    """A new and empty file next to ``path``; its name has the number of this process."""
    number = 0
    while True:
        mark = f"{os.getpid()}-{number}" if number else f"{os.getpid()}"
        draft = path.with_name(f".{path.name}.{mark}.partial")
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:  # of a process that was killed, or of somebody else
            number += 1
        else:
            return draft


def is_foreign(path: Path, program: str) -> bool:
    """Whether something is at ``path`` that is no page of ``program``."""
    if not path.exists():
        return path.is_symlink()
    if not path.is_file():
        return True
    with path.open(encoding="utf-8", errors="replace") as page:
        return f'<meta name="generator" content="{program}">' not in page.read(_HEAD)

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

    An interrupted run leaves no incomplete file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def is_foreign(path: Path, program: str) -> bool:
    """Whether something is at ``path`` that is no page of ``program``."""
    if not path.exists():
        return False
    if not path.is_file():
        return True
    with path.open(encoding="utf-8", errors="replace") as page:
        return f'<meta name="generator" content="{program}">' not in page.read(_HEAD)

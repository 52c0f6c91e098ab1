"""Files of the monitor's own, for what cannot be asked for again: standard input and datagrams.

A thread appends what comes to a file, which gets its final name once a second or when it is large.
The folder is then watched like any other one, and a file is removed when its records are stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

ROTATE_S = 1.0
_MOST_BYTES = 1 << 25
MOST_SPOOLED_BYTES = 1 << 30
"""Of all files that wait; what comes beyond that is lost, and counted."""


class Spool:
    """A file that is written, and those that wait to be read.

    Parameters
    ----------
    folder : where they are.
    suffix : of their names, which is the same for files of one format.
    head : makes the first bytes of a file.
    """

    def __init__(self, folder: Path, suffix: str, head: Callable[[], bytes]) -> None:
        self._folder, self._suffix, self._head = folder, suffix, head
        folder.mkdir(parents=True, exist_ok=True)
        self._hidden = folder / f".writing{suffix}"
        self._file: IO[bytes] | None = None
        self._began_s = 0.0

    def write(self, content: bytes) -> None:
        """Append to the file; begin one if there is none."""
        if self._file is None:
            self._file = self._hidden.open("wb", buffering=1 << 16)
            self._file.write(self._head())
            self._began_s = time.monotonic()
        self._file.write(content)
        if self._file.tell() >= _MOST_BYTES:
            self.rotate()

    def rotate_if_due(self) -> None:
        """Give the file its final name, if it is old enough."""
        if self._file is not None and time.monotonic() >= self._began_s + ROTATE_S:
            self.rotate()

    def rotate(self) -> None:
        """Give the file its final name."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._hidden.rename(self._folder / f"{time.time_ns():020}{self._suffix}")

    @property
    def is_full(self) -> bool:
        """Whether too much waits."""
        waiting = self._folder.glob(f"*{self._suffix}")
        return sum(path.stat().st_size for path in waiting) > MOST_SPOOLED_BYTES

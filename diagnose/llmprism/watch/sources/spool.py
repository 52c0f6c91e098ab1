"""Files of the monitor's own, for what cannot be asked for again: standard input and datagrams.

A thread appends what comes to a file, which gets its final name once a second, or when it may take
a second to read. The folder is then watched like any other one, and a file is removed when its
records are stored. What a monitor that was killed had begun to write is taken as well. The files
that wait have a quota: beyond it, nothing is written.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from prism_common.folders import Names, OwnFolder

ROTATE_S = 1.0
_MOST_BYTES = 1 << 18
MOST_SPOOLED_BYTES = 1 << 30
"""Of all files that wait; datagrams beyond that are lost, and counted; a writer has to wait."""
_LOOK_S = 0.2  # between two looks at the quota
_NAMES = Names(r"[0-9]{20}\.[a-z.]+")


def own_spool(folder: Path) -> OwnFolder:
    """The files that wait in a folder."""
    return OwnFolder(folder, _NAMES, "name another folder with --state")


class Spool:
    """A file that is written, and those that wait to be read.

    Parameters
    ----------
    folder : where they are.
    suffix : of their names, which is the same for files of one format.
    head : makes the first bytes of a file.
    most_bytes : of all files that wait in the folder, those of other suffixes among them.
    """

    def __init__(
        self,
        folder: Path,
        suffix: str,
        head: Callable[[], bytes],
        most_bytes: int = MOST_SPOOLED_BYTES,
    ) -> None:
        self._folder, self._suffix, self._head = folder, suffix, head
        self._waiting, self._most_bytes = own_spool(folder), most_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._hidden = folder / f".writing{suffix}"
        self._file: IO[bytes] | None = None
        self._began_s = 0.0
        self._looked_s, self._is_full = float("-inf"), False
        if self._hidden.exists():
            self._keep()

    def write(self, content: bytes) -> None:
        """Append to the file; begin one if there is none.

        Raises
        ------
        OSError : too much waits, or the disk is full.
        """
        if self._file is None:
            if self.is_full:
                raise OSError(errno.EDQUOT, "too much waits to be read", str(self._folder))
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
            self._keep()

    def _keep(self) -> None:
        self._hidden.rename(self._folder / f"{time.time_ns():020}{self._suffix}")

    @property
    def is_full(self) -> bool:
        """Whether too much waits."""
        now_s = time.monotonic()
        if now_s >= self._looked_s + _LOOK_S:
            self._looked_s = now_s
            self._is_full = self._waiting.size_bytes(_NAMES) >= self._most_bytes
        return self._is_full

"""Standard input: lines of text, in any format of lines that ``llmprism ingest`` reads.

JSON lines need no more. Of a table, the first line names the columns; each file of the spool begins
with it. A line that is too long is set aside. The monitor ends when the input does.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from llmprism.watch.sources import Source, Taken, register
from llmprism.watch.sources.directory import Directory
from llmprism.watch.sources.spool import Spool, own_spool
from prism_common.untrusted import lines

_WAIT_S = 0.1


class StandardInput(Source):
    """Lines that a thread puts into files."""

    def __init__(self, stream: IO[bytes], folder: Path) -> None:
        self._stream = stream
        self._first = b""
        self._spool = Spool(folder, ".lines", lambda: self._first)
        self._files = Directory(folder, own_spool(folder))
        self._refused = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return the lines that have come."""
        is_end = not self._thread.is_alive()
        with self._lock:
            (self._spool.rotate if is_end else self._spool.rotate_if_due)()
            refused, self._refused = self._refused, 0
        taken = self._files.take(position, 0.0 if is_end else wait_s)
        is_over = is_end and not taken.files
        return Taken(taken.files, taken.position, refused=refused, is_end=is_over)

    def stored(self, taken: Taken) -> None:
        """Remove the files."""
        self._files.stored(taken)

    def _read(self) -> None:
        for line in lines(self._stream):
            if line is None:
                with self._lock:
                    self._refused += 1
            elif not line.startswith(b"{") and not self._first:
                self._first = line
            else:
                self._put(line)

    def _put(self, line: bytes) -> None:
        """Write a line; while the disk is full, or too much waits, the writer has to wait."""
        while True:
            try:
                with self._lock:
                    self._spool.write(line)
                return
            except OSError:
                time.sleep(_WAIT_S)


@register("standard_input", "- (standard input, lines)", lambda text: text == "-")
def open_standard_input(_text: str, folder: Path) -> StandardInput:
    """Open standard input."""
    return StandardInput(sys.stdin.buffer, folder / "spool")

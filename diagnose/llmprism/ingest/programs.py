"""The output of a program that reads a damaged file: it may fail, or never end.

A program that writes nothing for a while is ended; what it wrote until then stands.
"""

from __future__ import annotations

import io
import selectors
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

from llmprism.ingest.notes import Notes
from llmprism.ingest.sources import Source

_SILENCE_S = 5.0  # that a program may be silent, and 1 s more for each piece of the file
_PIECE_BYTES = 10_000_000


@contextmanager
def output_of(command: Sequence[str], source: Source, notes: Notes) -> Iterator[IO[bytes]]:
    """Run a program on a source; yield what it writes. A failure is counted and remarked on."""
    silence_s = _SILENCE_S + source.size / _PIECE_BYTES
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env={"TZ": "UTC", "LC_ALL": "C"}
        ) as running:
            stream = cast("IO[bytes]", running.stdout)
            output = _Output(stream, silence_s)
            try:
                yield cast("IO[bytes]", io.BufferedReader(output, 1 << 16))
                stream.close()  # a program that goes on writing ends
                if not output.is_silent:
                    running.wait(silence_s)
            except subprocess.TimeoutExpired:
                output.is_silent = True
            finally:
                running.kill()
        if output.is_silent or running.returncode > 0:
            errors.seek(0)
            lines = errors.read(400).decode(errors="replace").strip().splitlines()
            why = [f"silent for {silence_s:.0f} s"] if output.is_silent else lines
            notes.drop("file not read to its end")
            notes.remark(f"{source}: {command[0]}: {[*why, running.returncode][0]}")


class _Output(io.RawIOBase):
    """What a program writes, until it ends or is silent for too long."""

    def __init__(self, stream: IO[bytes], silence_s: float) -> None:
        self._stream = stream
        self._silence_s = silence_s
        self._ready = selectors.DefaultSelector()
        self._ready.register(stream, selectors.EVENT_READ)
        self.is_silent = False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if self.is_silent or not self._ready.select(self._silence_s):
            self.is_silent = True
            return 0
        taken = cast("Any", self._stream).raw.readinto(target)
        return int(taken)

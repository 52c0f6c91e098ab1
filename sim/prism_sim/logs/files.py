"""A log file that is compressed and rotated while it is written.

As with logrotate, the newest part has the name of the file, and older parts have numbers, the
oldest the highest. Parts get their final names when the file is closed.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

Compression = Literal["gzip", "zstd", "none"]
SUFFIX: dict[Compression, str] = {"gzip": ".gz", "zstd": ".zst", "none": ""}
_GZIP_WINDOW = 31  # of zlib: a gzip header without a time, so the same text gives the same bytes
_FAST = 1
AT_ONCE = 2_000
"""Lines that are encoded together: their text fits in a processor's cache."""


class Position(NamedTuple):
    """A line: the part of its file, its number within it, and its first byte (uncompressed)."""

    part: int
    line: int
    offset_bytes: int


class _Sink(Protocol):
    def write(self, data: bytes) -> object: ...

    def close(self) -> None: ...


class _Gzip:
    """gzip at its fastest level."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._packer = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP_WINDOW)

    def write(self, data: bytes) -> None:
        self._file.write(self._packer.compress(data))

    def close(self) -> None:
        self._file.write(self._packer.flush())
        self._file.close()


def _encoded(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _sink(path: Path, compression: Compression) -> _Sink:
    if compression == "gzip":
        return _Gzip(path)
    sink: _Sink = path.open("wb")
    if compression == "zstd":
        sink = pa.CompressedOutputStream(str(path), "zstd")
    return sink


class LogFile:
    """One log file in parts.

    Parameters
    ----------
    path : its name, without the suffix of a compression.
    limit_bytes : a part does not grow beyond this (uncompressed), unless one line is longer; None
        for a single part.
    keep : number of parts that remain; None for all.

    Attributes
    ----------
    total_bytes, total_lines : what was written into all parts, before compression.
    """

    def __init__(
        self,
        path: Path,
        compression: Compression,
        limit_bytes: int | None = None,
        keep: int | None = None,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._compression = compression
        self._limit_bytes = limit_bytes or 1 << 62
        self._keep = keep
        self._part = -1
        self.total_bytes = self.total_lines = 0
        self._next_part()

    def write(self, lines: Sequence[str], wanted: Sequence[int] = ()) -> list[Position]:
        """Write ``lines``; returns the positions of the lines with the ``wanted`` numbers."""
        if wanted:
            return self._in_parts(_encoded(lines), lines, wanted)
        for first in range(0, len(lines), AT_ONCE):
            self._write_piece(lines[first : first + AT_ONCE])
        return []

    def write_cut(self, text: str) -> None:
        """Write the beginning of a line that never ends."""
        self._put(text.encode(), 0)

    def close(self) -> list[str | None]:
        """Close the file; returns the final name of each part, and None for parts that are gone."""
        self._sink.close()
        parts = self._part + 1
        kept = parts if self._keep is None else min(parts, self._keep)
        return [self._settle(part, parts - 1 - part, kept) for part in range(parts)]

    def _write_piece(self, lines: Sequence[str]) -> None:
        data = _encoded(lines)
        if self._bytes + len(data) <= self._limit_bytes:
            self._put(data, len(lines))
        else:
            self._in_parts(data, lines, ())

    def _in_parts(self, data: bytes, lines: Sequence[str], wanted: Sequence[int]) -> list[Position]:
        ends = np.cumsum([len(line.encode()) + 1 for line in lines]).tolist()
        positions, asked, begin, first = [], [*wanted], 0, 0
        while first < len(ends):
            room = self._limit_bytes - self._bytes + begin
            last = int(np.searchsorted(ends, room, side="right"))
            if last <= first and not self._lines:
                last = first + 1
            while asked and asked[0] < last:
                number = asked.pop(0)
                start = (ends[number - 1] if number else 0) - begin + self._bytes
                positions.append(Position(self._part, self._lines + number - first + 1, start))
            if last > first:
                self._put(data[begin : ends[last - 1]], last - first)
                begin, first = ends[last - 1], last
            if first < len(ends):
                self._sink.close()
                self._next_part()
        return positions

    def _put(self, data: bytes, lines: int) -> None:
        self._sink.write(data)
        self._bytes += len(data)
        self._lines += lines
        self.total_bytes += len(data)
        self.total_lines += lines

    def _next_part(self) -> None:
        self._part += 1
        self._bytes = self._lines = 0
        self._sink = _sink(self._temporary(self._part), self._compression)

    def _temporary(self, part: int) -> Path:
        return self._path.with_name(f"{self._path.name}.part{part}")

    def _settle(self, part: int, age: int, kept: int) -> str | None:
        temporary = self._temporary(part)
        if age >= kept:
            temporary.unlink()
            return None
        number = f".{age}" if age else ""
        final = f"{self._path.name}{number}{SUFFIX[self._compression]}"
        temporary.rename(self._path.with_name(final))
        return final

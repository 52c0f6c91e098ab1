"""The files to read: names, globs and folders become sources that open as plain bytes.

A compressed file (gzip, bzip2, xz, zstd) is decompressed while it is read.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from llmprism.io.notes import Notes
from prism_common.errors import Problem, UserError

HEAD_BYTES = 1 << 16  # enough to recognise a format, by tens of packets of a capture
LONGEST_LINE = 1 << 20  # characters
BROKEN = (EOFError, OSError, lzma.LZMAError, zlib.error, pa.ArrowException)
"""What reading a damaged compressed file raises."""

_PIECE_BYTES = 1 << 16
_PACKED: dict[bytes, Callable[[Any], IO[bytes]]] = {
    b"\x1f\x8b": lambda raw: cast("IO[bytes]", gzip.GzipFile(fileobj=raw)),
    b"BZh": lambda raw: cast("IO[bytes]", bz2.BZ2File(raw)),
    b"\xfd7zXZ\x00": lambda raw: cast("IO[bytes]", lzma.LZMAFile(raw)),  # noqa: SIM115
    b"\x28\xb5\x2f\xfd": lambda raw: cast("IO[bytes]", pa.CompressedInputStream(raw, "zstd")),
}
_PACKED_SUFFIXES = {".gz", ".bz2", ".xz", ".zst"}


@dataclass(frozen=True)
class Source:
    """One file to read.

    Attributes
    ----------
    is_named : whether the user named it, and not only a folder that it is in.
    point : the observation point of its records, if that is known.
    """

    path: Path
    is_named: bool = True
    point: str | None = None
    _opened: list[IO[bytes]] = field(default_factory=list, compare=False, repr=False)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def label(self) -> str:
        """What its observation point is called: by default as the file, without its suffixes."""
        if self.point is not None:
            return self.point
        path = self.path.with_suffix("") if self.path.suffix in _PACKED_SUFFIXES else self.path
        return path.stem

    @property
    def size(self) -> int:
        """Bytes of the file as it lies on the disk; 0 if that is unknown."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    @property
    def place(self) -> int:
        """How many bytes of the file have been read; all of them once it is closed."""
        if not self._opened:
            return 0
        raw = self._opened[-1]
        return self.size if raw.closed else raw.tell()

    @cached_property
    def head(self) -> bytes:
        """The first bytes, decompressed and in UTF-8 if it is text; fewer where it is damaged."""
        with self.open() as stream:
            try:
                start = stream.read(HEAD_BYTES) or b""
            except BROKEN:
                return b""
        wide = _wide_encoding(start)
        return start.decode(wide, errors="replace").encode() if wide else start

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file as a stream of decompressed bytes."""
        try:
            raw = self.path.open("rb")
        except OSError as error:
            reason = error.strerror or str(error)
            raise UserError(Problem(f"cannot read this: {reason}", str(self.path))) from error
        self._opened[:] = [raw]
        with raw:
            start = raw.read(8)
            raw.seek(0)
            for magic, unpack in _PACKED.items():
                if start.startswith(magic):
                    with unpack(raw) as stream:
                        yield stream
                    return
            yield raw

    @contextmanager
    def utf8(self) -> Iterator[IO[bytes]]:
        """Open the file as a stream of UTF-8; bytes that are none are replaced."""
        with self.open() as stream:
            start = stream.read(len(codecs.BOM_UTF16))
            encoding = _wide_encoding(start) or "utf-8"
            yield cast("IO[bytes]", io.BufferedReader(_Utf8(stream, encoding, start), _PIECE_BYTES))

    @contextmanager
    def text(self) -> Iterator[IO[str]]:
        """Open the file as UTF-8 text; bytes that are none are replaced."""
        with self.utf8() as stream:
            readable: Any = stream
            yield io.TextIOWrapper(readable, encoding="utf-8-sig", errors="replace", newline="")

    def lines(self, notes: Notes, longest: int = LONGEST_LINE) -> Iterator[str]:
        """Yield the lines of text; a longer one in pieces. What cannot be read is noted."""
        with self.text() as stream:
            try:
                while line := stream.readline(longest):
                    yield line
            except BROKEN as error:
                notes.drop("file not read to its end")
                notes.remark(f"{self}: read up to where it is damaged: {error}")


def _wide_encoding(start: bytes) -> str:
    """Return the encoding of text in two bytes a character, which begins with a mark; or none.

    Windows PowerShell writes it where output is sent to a file.
    """
    return "utf-16" if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else ""


class _Utf8(io.RawIOBase):
    """A stream of text in UTF-8; bytes that are no text in its own encoding are replaced.

    ``start`` has been read from the stream already.
    """

    def __init__(self, stream: IO[bytes], encoding: str, start: bytes) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._held = self._decoder.decode(start).encode()

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._held:
            piece = self._stream.read(_PIECE_BYTES)
            self._held = self._decoder.decode(piece, final=not piece).encode()
            if not piece:
                break
        taken, self._held = self._held[: len(target)], self._held[len(target) :]
        target[: len(taken)] = taken
        return len(taken)


def find(inputs: Iterable[str]) -> list[Source]:
    """Return the files that names, globs and folders stand for, each once, in order.

    Raises
    ------
    UserError : with every name that leads to no file.
    """
    found: dict[Path, bool] = {}
    problems = []
    for name in inputs:
        paths = list(paths_of(name))
        if not paths:
            how = "name a file, a folder or a glob such as 'exports/*.pcap'"
            problems.append(Problem("there is no such file", name, how))
        is_named = not Path(name).is_dir()
        found.update({path: is_named or found.get(path, False) for path in paths})
    if problems:
        raise UserError(problems)
    return [Source(path, is_named) for path, is_named in found.items()]


def paths_of(name: str) -> Iterator[Path]:
    """Yield the files that a name, a folder or a glob stands for, in order."""
    try:
        path = Path(name)
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if _is_data(one))
        elif path.is_file():
            yield path
        else:
            yield from sorted(
                one for one in map(Path, glob.glob(name, recursive=True)) if one.is_file()
            )
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise UserError(Problem(f"cannot read this: {error}", name)) from error


def _is_data(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")

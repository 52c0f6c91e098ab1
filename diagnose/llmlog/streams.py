"""Cutting a file into lines, whatever it is compressed with, in bounded memory.

Compression is recognised by the first bytes (gzip, zstd, bzip2, xz), never by the name. A line
longer than :data:`LONGEST` is read in pieces, so nothing of it is lost; so is one with carriage
returns. A file that breaks is read up to that place; one that grows, up to the size it had at
first. What had to be mended is noted in :class:`Intake`, one sentence a file and defect.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

LONGEST = 65_536
"""Bytes of a piece of a line."""
_BLOCK = 1 << 18
_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException)
_PASSED = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\0|\d{1000,}")


@dataclass
class Intake:
    """What was read: files, lines, bytes (uncompressed), dumps; and a note for each defect."""

    files: int = 0
    lines: int = 0
    nbytes: int = 0
    dumps: int = 0
    notes: list[str] = field(default_factory=list)


def lines(path: Path, name: str, intake: Intake) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of each line, or piece of a line, of the file called ``name``."""
    intake.files += 1
    number, rest = 0, b""
    long_lines = foreign = 0
    try:
        for block in _blocks(path, name, intake):
            intake.nbytes += len(block)
            whole = (rest + block).split(b"\n")
            rest = whole.pop()
            plain = block.isascii() and rest.isascii()
            for line in whole:
                number += 1
                foreign += not plain and not _is_utf8(line)
                if len(line) <= LONGEST and b"\r" not in line:
                    yield number, line
                else:
                    long_lines += len(line) > LONGEST
                    yield from ((number, piece) for piece in _pieces(line))
            if len(rest) > _BLOCK:  # a line longer than a block
                yield from ((number + 1, piece) for piece in _pieces(rest))
                long_lines, rest = long_lines + 1, b""
    except _BROKEN as error:
        intake.notes.append(f"{name}: ends early after line {number} ({_reason(error)})")
    if rest:
        number += 1
        foreign += not _is_utf8(rest)
        yield from ((number, piece) for piece in _pieces(rest))
    intake.lines += number
    if long_lines:
        intake.notes.append(f"{name}: very long lines, which were read in pieces")
    if foreign:
        intake.notes.append(f"{name}: lines that are not UTF-8 were read as Latin-1: {foreign}")


def decoded(raw: bytes) -> str:
    """The text of a line: UTF-8, or else Latin-1, which loses nothing.

    Colours, the zero bytes of a crashed file system, and endless numbers are passed over.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text if text.isprintable() and len(text) < 1000 else _PASSED.sub("", text)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _pieces(line: bytes) -> Iterator[bytes]:
    """Parts between carriage returns, each cut at :data:`LONGEST`; at least one."""
    for part in line.rstrip(b"\r").split(b"\r"):
        yield part[:LONGEST]
        for start in range(LONGEST, len(part), LONGEST):
            yield part[start : start + LONGEST]


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).split("\n")[0][:200] or type(error).__name__


def _zstd(stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd"))


Opener = Callable[[BinaryIO], BinaryIO]
_OPENERS: dict[bytes, Opener] = {
    b"\x1f\x8b": cast(Opener, gzip.open),
    b"\x28\xb5\x2f\xfd": _zstd,
    b"BZh": cast(Opener, bz2.open),
    b"\xfd7zXZ\0": cast(Opener, lzma.open),
}
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ARCHIVES = {"zip": (0, b"PK\x03\x04"), "tar": (257, b"ustar")}


def _blocks(path: Path, name: str, intake: Intake) -> Iterator[bytes]:
    """Blocks of the uncompressed content; what is UTF-16 becomes UTF-8."""
    with path.open("rb") as stream:
        blocks = _plain(stream, name, intake)
        head = next(blocks, b"")
        opener = next((each for magic, each in _OPENERS.items() if head.startswith(magic)), None)
        if opener is not None and stream.seekable():
            blocks = _uncompressed(stream, opener)
            head = next(blocks, b"")
        for kind, (at, magic) in _ARCHIVES.items():
            if head[at:].startswith(magic):
                intake.notes.append(f"{name}: a {kind} archive; unpack it to read its files")
                return
        head = head.removeprefix(codecs.BOM_UTF8)
        wide = head.startswith(_WIDE)
        decode = codecs.getincrementaldecoder("utf-16")("replace").decode if wide else None
        while head:
            yield decode(head).encode() if decode else head
            head = next(blocks, b"")


def _plain(stream: BinaryIO, name: str, intake: Intake) -> Iterator[bytes]:
    """Blocks up to the size that a file had when it was opened."""
    status = os.fstat(stream.fileno())
    left = status.st_size if stat.S_ISREG(status.st_mode) else None
    while block := stream.read(_BLOCK if left is None else min(_BLOCK, left)):
        left = None if left is None else left - len(block)
        yield block
    if left == 0 and os.fstat(stream.fileno()).st_size > status.st_size:
        intake.notes.append(f"{name}: grew while it was read; its first lines were read")


def _uncompressed(stream: BinaryIO, opener: Opener) -> Iterator[bytes]:
    """Blocks of a compressed stream; the last one, if it breaks, up to its last good byte."""
    stream.seek(0)
    source, given = opener(stream), 0
    try:
        while block := source.read(_BLOCK):
            given += len(block)
            yield block
    except _BROKEN:
        stream.seek(0)
        if rest := _good_bytes(opener(stream), given):
            yield rest
        raise


def _good_bytes(source: BinaryIO, after: int) -> bytes:
    found = bytearray()
    try:
        while after:
            after -= len(source.read(min(after, _BLOCK)))
        while byte := source.read(1):
            found += byte
    except _BROKEN:
        pass
    return bytes(found)

"""Opens the input of a user: a regular file, a pipe, or ``-`` for standard input.

Devices and folders are refused before reading. A pipe is copied to a temporary file
if input is read out of order, as with Parquet.
"""

from __future__ import annotations

import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from prism_common.errors import Problem, UserError
from prism_common.program import NO_MEMORY

STANDARD_INPUT = "-"
PARQUET = "not a readable Parquet file"
_FIRST = 8  # bytes that show the format of a file


@contextmanager
def readable(where: Path | str, how: str = "", what: str = PARQUET) -> Iterator[None]:
    """Turn what reading a damaged table raises into an error of the user."""
    import pyarrow as pa  # takes address space that SciPy needs before

    try:
        yield
    except FileNotFoundError:
        raise
    except MemoryError as error:
        reason = f"{NO_MEMORY} to read it; if there should be, the file is damaged"
        raise UserError(Problem(reason, str(where))) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise UserError(Problem(f"{what}: {first_line(error)}", str(where), how)) from error


def first_line(error: Exception) -> str:
    """The first line of what an error says, or its type if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def seekable(path: Path | str, starts: tuple[bytes, ...], kind: str) -> Iterator[IO[bytes]]:
    """Open a file or a pipe of ``kind`` for reading in any order.

    Parameters
    ----------
    starts : possible first bytes of such a file. A pipe that starts with other bytes
        is not read further.

    Raises
    ------
    UserError : the file does not exist, is a folder or a device, or cannot be
        read.
    """
    with _opened(path) as source:
        if source.seekable():
            yield source
            return
        first = source.read(_FIRST)
        if not first.startswith(starts):
            raise UserError(Problem(f"not a readable {kind}", str(path)))
        with tempfile.TemporaryFile() as copy:
            copy.write(first)
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.seek(0)
            yield copy


def read_text(path: Path | str, limit_bytes: int, remedy: str = "") -> str:
    """Return the text of a file or a pipe; ``remedy`` is for a file that is no text.

    Raises
    ------
    UserError : as :func:`seekable`; also for more than ``limit_bytes``, or text that is not
        UTF-8.
    """
    with _opened(path) as source:
        content = source.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise UserError(Problem(f"longer than {limit_bytes >> 20} MiB", str(path)))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(Problem(f"not UTF-8 text: {error}", str(path), remedy)) from error


@contextmanager
def _opened(path: Path | str) -> Iterator[IO[bytes]]:
    if str(path) == STANDARD_INPUT:
        yield sys.stdin.buffer
    else:
        with _file(path) as source:
            yield source


def _file(path: Path | str) -> IO[bytes]:
    try:
        mode = Path(path).stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            what = "a folder" if stat.S_ISDIR(mode) else "a device"
            raise UserError(Problem(f"this is {what}", str(path), "name a file or a pipe"))
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise UserError(Problem("there is no such file", str(path))) from error
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(Problem(f"cannot read this: {reason}", str(path))) from error

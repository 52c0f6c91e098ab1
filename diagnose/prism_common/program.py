"""The frame of a command line: what happens if its output or its memory ends.

A closed stream counts as ``/dev/null``. If stdout cannot be written, or memory ends, stderr gets
one line, and the exit code is 1. Commands need to know nothing of this.

Python looks for unreachable cycles of objects whenever 700 more exist than before. A program that
starts makes more than 100,000, none in vain: a sixth of its time. So the number is larger here.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import TextIOWrapper

from prism_common.escapes import printable

WRONG = 1
"""Exit code: the data is wrong, or a file cannot be read or written."""
CANNOT_TELL_EXIT = 4
"""Exit code: the records do not suffice for an answer."""
NO_MEMORY = "not enough memory"
MORE_OBJECTS = 50_000
"""So many more objects exist when Python looks for unreachable ones."""
_REMEDY = "give the process more (ulimit -v, the limit of its container), or take less data"
_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))  # by number


def run_program(program: Callable[[], object]) -> None:
    """Run ``program`` to its end, with all it prints; raise any other exception: it is a bug."""
    gc.set_threshold(MORE_OBJECTS)
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a locale without Unicode prints \\u2014 for a dash
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            program()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough
        _to_null(1)
        raise SystemExit(WRONG) from None
    except Exception as error:
        message = _message(error)
        if message is None or "--debug" in sys.argv:
            raise
        _end_with(message)


def is_memory_error(error: BaseException) -> bool:
    """Whether ``error`` says that memory ended, itself or as the error that caused it."""
    return any(_tells_of_memory(each) for each in _causes(error))


def _tells_of_memory(error: BaseException) -> bool:
    if isinstance(error, ImportError):  # of a shared library
        return "failed to map segment" in str(error) or "allocate memory" in str(error)
    if isinstance(error, RuntimeError):
        return "can't start new thread" in str(error)
    return isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _message(error: Exception) -> str | None:
    """One line about ``error``; None if it is a bug."""
    if is_memory_error(error):
        return f"{NO_MEMORY}: {_REMEDY}"
    if isinstance(error, OSError):
        where = "stdout" if error.filename is None else str(error.filename)
        return f"{where}: {error.strerror or error}"
    return None


def _end_with(message: str) -> None:
    with suppress(OSError):
        print(f"error: {printable(message)}", file=sys.stderr, flush=True)
    _to_null(1)  # what stdout still holds has no place to go
    raise SystemExit(WRONG) from None


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that the caller closed.

    Otherwise the next file that is opened would get its number, and all that libraries print.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            _to_null(number)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _to_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)

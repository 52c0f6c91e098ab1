"""Runs commands in fresh processes, and says what they took."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


class FailedError(Exception):
    """A command that was to be measured did not work; the text ends with its last words."""


@dataclass(frozen=True)
class Usage:
    """What one process took.

    Attributes
    ----------
    seconds : from start to exit, on the wall clock.
    cpu_seconds : of all its threads.
    peak_bytes : largest resident set.
    said : its standard output.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    said: str


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Usage:
    """Run ``command``, with ``environment`` on top of this one's, to its end.

    Raises
    ------
    FailedError : it ended with another exit code than 0.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=out, stderr=errors, env={**os.environ, **(environment or {})}
        )
        _, status, usage = os.wait4(process.pid, 0)  # the only way to one child's own peak
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise FailedError(f"{' '.join(command)}\n{errors.read()[-2000:]}")
        cpu_seconds = usage.ru_utime + usage.ru_stime
        return Usage(seconds, cpu_seconds, usage.ru_maxrss * 1024, out.read())


def median(values: Sequence[float]) -> float:
    """The median; of an even number of values, the mean of the middle two."""
    return float(statistics.median(values))


def repeated(times: int, measure: Callable[[], Usage]) -> list[Usage]:
    """Measure as often as asked, one after the other."""
    return [measure() for _ in range(times)]


def tell(text: str) -> None:
    """Say on stderr what is going on."""
    print(text, file=sys.stderr, flush=True)

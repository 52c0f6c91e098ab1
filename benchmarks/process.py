"""Run commands in new processes, and measure their time and memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class FailedError(Exception):
    """A measured command failed; the message ends with the last lines of its stderr."""


@dataclass(frozen=True)
class Usage:
    """Time and memory of one process.

    Attributes
    ----------
    seconds : wall-clock time from start to exit.
    cpu_seconds : CPU time of all its threads.
    peak_bytes : largest resident set.
    output : its standard output.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Usage:
    """Run ``command`` to its end; ``environment`` is added to that of this process.

    Raises
    ------
    FailedError : its exit code is not 0.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        started_s = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=out, stderr=errors, env={**os.environ, **(environment or {})}
        )
        _, status, usage = os.wait4(
            process.pid, 0
        )  # the only call that gives the peak of one child
        seconds = time.perf_counter() - started_s
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise FailedError(f"{' '.join(command)}\n{errors.read()[-2000:]}")
        cpu_seconds = usage.ru_utime + usage.ru_stime
        return Usage(seconds, cpu_seconds, usage.ru_maxrss * 1024, out.read())


def median(values: Sequence[float]) -> float:
    """The median; for an even number of values, the mean of the middle two."""
    return float(statistics.median(values))


def report(text: str) -> None:
    """Print progress or an error on stderr."""
    print(text, file=sys.stderr, flush=True)

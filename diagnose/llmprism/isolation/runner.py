"""Runs one method in a process of its own and returns its tables, checked."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from llmprism.defaults import MEMORY_LIMIT_GIB, TIME_LIMIT_S
from llmprism.io.flows import FlowTable
from llmprism.io.foreign import read_tables
from llmprism.io.topology import Topology, as_content
from llmprism.isolation.inside import FLOWS, REPORT, TABLES, TOPOLOGY
from prism_common.errors import Problem, UserError
from prism_common.files import resolved
from prism_common.folders import is_regular
from prism_common.scratch import working_folder
from prism_common.untrusted import OutsideError, parsed, real

_BOOT = (
    "import json, sys; path, *task = json.load(sys.stdin); sys.path[:] = path;"
    "from llmprism.isolation.inside import main; main(*task)"
)
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT")
_FAMILIES = ("NUMBA_", "OMP_", "OPENBLAS_", "MKL_")  # of variables that are passed on
_EVERY_S, _MEMORY_EVERY_S = 0.02, 0.1  # between two looks at the process, and at its memory
_LONGEST_REPORT, _LONGEST_ERROR = 1 << 16, 500  # bytes, characters
_SHOWN = 3  # last lines of the method's output in a message


@dataclass(frozen=True)
class Limits:
    """Limits of the process of a method.

    Attributes
    ----------
    time_s : time from its start to its end, imports included [s].
    memory_bytes : resident memory of it and of what it started [bytes]; Linux only.
    """

    time_s: float = TIME_LIMIT_S
    memory_bytes: int = int(MEMORY_LIMIT_GIB * 2**30)

    @classmethod
    def of(cls, time_s: float, memory_gib: float) -> Limits:
        """The limits of the options of a command."""
        return cls(time_s, int(memory_gib * 2**30))


LIMITS = Limits()
"""Limits if none are given."""


@dataclass(frozen=True)
class Usage:
    """Time of a method without imports and reading [s], and peak memory of its process [bytes]."""

    seconds: float
    peak_memory_bytes: int


class MethodError(UserError):
    """A method gave no result; ``reason`` is one of :data:`REASONS`."""

    def __init__(self, reason: str, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.reason = reason


CRASHED, TIMED_OUT, OUT_OF_MEMORY, INVALID = REASONS = (
    "crashed",
    "timed out",
    "out of memory",
    "invalid tables",
)
"""Reasons why a method gives no result."""


def run_apart(
    method: str, flows: FlowTable, topology: Topology, limits: Limits
) -> tuple[dict[str, pd.DataFrame], Usage]:
    """Run ``method`` in a process of its own; returns its tables by name.

    Raises
    ------
    MethodError : the method gave no valid tables, with the reason.
    """
    with working_folder() as folder:
        work = resolved(folder) / "work"
        work.mkdir()
        pq.write_table(flows.as_table(), work / FLOWS)
        (work / TOPOLOGY).write_text(json.dumps(as_content(topology)), encoding="utf-8")
        began = time.monotonic()
        code, peak_memory_bytes, limit = _ended(method, folder, work, limits)
        seconds = time.monotonic() - began
        report = _report(work / REPORT)
        _refuse(method, limits, code, limit or str(report.get("limit", "")), report, folder / "log")
        try:
            tables = read_tables(work / TABLES, set(flows.addresses))
        except UserError as error:
            found = [Problem(one.what, f"method {method}", one.how) for one in error.problems]
            raise MethodError(INVALID, found) from error
    return tables, Usage(float(report.get("seconds", seconds)), peak_memory_bytes)


def _ended(method: str, folder: Path, work: Path, limits: Limits) -> tuple[int, int, str]:
    """Run the process to its end: exit code, peak memory [bytes], and the limit that ended it."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT or name.startswith(_FAMILIES)
    }
    environment |= {"HOME": str(work), "TMPDIR": str(work)}
    paths = [os.path.abspath(path) for path in sys.path if path]
    task = json.dumps([paths, method, os.getcwd(), limits.memory_bytes])
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT],
            cwd=work,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdin is not None
    try:
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(task.encode())
        status, usage, limit = _waited(process.pid, str(work), limits)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        _end_all(process.pid, str(work))
        process.wait()
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss [bytes]
    return process.returncode, usage.ru_maxrss * unit, limit


def _waited(process: int, home: str, limits: Limits) -> tuple[int, resource.struct_rusage, str]:
    """Exit status and usage of a process, and the limit at which it was killed."""
    until, look_s = time.monotonic() + limits.time_s, 0.0
    while True:
        done, status, usage = os.wait4(process, os.WNOHANG)
        if done:
            return status, usage, ""
        limit = "time" if time.monotonic() > until else ""
        if time.monotonic() > look_s:
            look_s = time.monotonic() + _MEMORY_EVERY_S
            limit = "memory" if _memory_bytes(process, home) > limits.memory_bytes else limit
        if limit:
            os.kill(process, signal.SIGKILL)
            _, status, usage = os.wait4(process, 0)
            return status, usage, limit
        time.sleep(_EVERY_S)


def _memory_bytes(process: int, home: str) -> int:
    """Memory of a process and of those that it started, what they share counted once [bytes].

    It is 0 if the system does not tell.
    """
    others = _started_by(home) - {process}
    total = 0
    for one in {process, *others}:
        with suppress(OSError, IndexError, ValueError):  # ended, or not Linux
            if others:
                text = Path(f"/proc/{one}/smaps_rollup").read_text()
                total += int(text.partition("\nPss:")[2].split()[0]) * 1024
            else:
                pages = Path(f"/proc/{one}/statm").read_text().split()[1]
                total += int(pages) * resource.getpagesize()
    return total


def _started_by(home: str) -> set[int]:
    """Processes of a method: their environment has its folder as ``HOME``."""
    mark = f"HOME={home}\0".encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # ended, or another user's
            if mark in path.read_bytes():
                found.add(int(path.parent.name))
    return found


def _end_all(process: int, home: str) -> None:
    """Kill the session of ``process``, and all that it started in other sessions."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    for one in _started_by(home):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)


def _report(path: Path) -> dict[str, Any]:
    """The report of the process, which a method can write as well; empty if it is none."""
    if not is_regular(path):
        return {}
    with suppress(OSError, OutsideError), path.open("rb") as file:
        found = parsed(file.read(_LONGEST_REPORT))
        if isinstance(found, dict):
            report: dict[str, Any] = {"limit": "memory" if found.get("out_of_memory") else ""}
            if "error" in found:
                report["error"] = str(found["error"])[:_LONGEST_ERROR]
            if "seconds" in found:
                report["seconds"] = real(found["seconds"], 0.0, 1e9)
            return report
    return {}


def _refuse(
    method: str, limits: Limits, code: int, limit: str, report: dict[str, Any], log: Path
) -> None:
    """Raise a MethodError unless the process ended well."""
    last = _last_lines(log)
    how = f"its last output: {last}" if last else ""
    reason, what = "", ""
    if limit == "time":
        reason, what = TIMED_OUT, f"it ran longer than the limit of {limits.time_s:g} s"
    elif limit == "memory":
        gibibytes = f"{limits.memory_bytes / 2**30:.3g} GiB"
        reason, what, how = OUT_OF_MEMORY, f"it needs more memory than the limit of {gibibytes}", ""
    elif report.get("error"):
        reason, what, how = CRASHED, report["error"], ""
    elif code or not report:
        reason, what = CRASHED, f"its process ended with {_code_name(code)}"
    if reason:
        raise MethodError(reason, [Problem(what, f"method {method}", how)])


def _code_name(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return f"signal {-code} ({signal.strsignal(-code)})"


def _last_lines(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        lines = file.read().decode(errors="replace").splitlines()
    return " | ".join(line.strip() for line in lines[-_SHOWN:] if line.strip())

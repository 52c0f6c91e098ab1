"""Runs one method in a process of its own and returns its tables, checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from llmprism.defaults import MEMORY_LIMIT_GIB, TIME_LIMIT_S
from llmprism.io.flows import FlowTable
from llmprism.io.foreign import read_tables
from llmprism.io.topology import Topology, as_content
from llmprism.isolation.inside import FLOWS, TABLES, TOPOLOGY
from llmprism.isolation.supervisor import Ending, Task
from prism_common.errors import Problem, UserError
from prism_common.folders import is_regular

_PATIENCE_S = 30.0  # for the supervisor, beyond the time limit of the method
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.readline());"
    "from llmprism.isolation.supervisor import main; main()"
)
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT")
_FAMILIES = ("NUMBA_", "OMP_", "OPENBLAS_", "MKL_")  # of variables that are passed on
_SHOWN = 3  # last lines of the method's output in a message


@dataclass(frozen=True)
class Limits:
    """Limits of the process of a method.

    Attributes
    ----------
    time_s : time from its start to its end, imports included [s].
    memory_bytes : its resident memory [bytes]; Linux only.
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


CRASHED, TIMED_OUT, OUT_OF_MEMORY, INVALID, OPENED_TRUTH = REASONS = (
    "crashed",
    "timed out",
    "out of memory",
    "invalid tables",
    "opened the truth",
)
"""Reasons why a method gives no result."""


def run_apart(
    method: str,
    flows: FlowTable,
    topology: Topology,
    limits: Limits,
    hidden: Sequence[Path] = (),
) -> tuple[dict[str, pd.DataFrame], Usage]:
    """Run ``method`` in a process of its own; returns its tables by name.

    Parameters
    ----------
    hidden : folders and files that the method must not read.

    Raises
    ------
    MethodError : the method gave no valid tables, with the reason.
    """
    with tempfile.TemporaryDirectory(prefix="llmprism-") as name:
        folder = Path(name).resolve()
        (folder / "empty").touch()
        work = folder / "work"
        work.mkdir()
        pq.write_table(flows.as_table(), work / FLOWS)
        (work / TOPOLOGY).write_text(json.dumps(as_content(topology)), encoding="utf-8")
        covered = [str(path.resolve()) for path in hidden]
        task = Task(method, name, covered, limits.time_s, limits.memory_bytes)
        ending = _ending(task, work)
        _refuse(task, ending, folder)
        try:
            tables = read_tables(work / TABLES, set(flows.addresses))
        except UserError as error:
            found = [Problem(one.what, f"method {method}", one.how) for one in error.problems]
            raise MethodError(INVALID, found) from error
    seconds = float(ending.reply.get("seconds", ending.seconds))
    return tables, Usage(seconds, ending.peak_memory_bytes)


def _ending(task: Task, work: Path) -> Ending:
    """Start the supervisor of ``task`` and wait for it."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT or name.startswith(_FAMILIES)
    }
    environment |= {"HOME": str(work), "TMPDIR": str(work)}
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _BOOT],
        cwd=work,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    paths = [os.path.abspath(path) for path in sys.path if path]
    message = json.dumps([*paths, os.getcwd()]) + "\n" + json.dumps(asdict(task))
    try:
        out, errors = process.communicate(message, task.time_s + _PATIENCE_S)
        return Ending(**json.loads(out))
    except (subprocess.TimeoutExpired, ValueError) as error:
        last = "" if isinstance(error, subprocess.TimeoutExpired) else errors.strip()[-200:]
        problem = Problem(f"its supervisor failed {last}".strip(), f"method {task.method}")
        raise MethodError(CRASHED, [problem]) from error
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _refuse(task: Task, ending: Ending, folder: Path) -> None:
    """Raise a MethodError unless the process ended well."""
    last = _last_lines(folder / "log")
    how = f"its last output: {last}" if last else ""
    gibibytes = f"{task.memory_bytes / 2**30:.3g} GiB"
    error = str(ending.reply.get("error") or "")
    if ending.opened:
        names = ", ".join(ending.opened[:_SHOWN])
        _fail(OPENED_TRUTH, task, f"it tried to open the truth: {names}", "")
    if ending.limit == "time":
        _fail(TIMED_OUT, task, f"it ran longer than the limit of {task.time_s:g} s", how)
    if ending.limit == "memory" or ending.reply.get("out_of_memory"):
        _fail(OUT_OF_MEMORY, task, f"it needs more memory than the limit of {gibibytes}", "")
    if error:
        _fail(CRASHED, task, error, "")
    if ending.code:
        _fail(CRASHED, task, f"its process ended with {_code_name(ending.code)}", how)


def _fail(reason: str, task: Task, what: str, how: str) -> None:
    raise MethodError(reason, [Problem(what, f"method {task.method}", how)])


def _code_name(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return f"signal {-code} ({signal.strsignal(-code)})"


def _last_lines(log: Path) -> str:
    if not is_regular(log):
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        lines = file.read().decode(errors="replace").splitlines()
    return " | ".join(line.strip() for line in lines[-_SHOWN:] if line.strip())

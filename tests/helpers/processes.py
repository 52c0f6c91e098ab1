"""Child processes for tests: with the signals of an interactive shell, and always ended.

If a script starts a job in the background, the job and its children ignore SIGINT. Every process
that is started here gets the default signals, and a process group of its own. The group is killed
when the ``with`` block ends, also after an exception.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PRISM_SIM = [sys.executable, "-c", "from prism_sim.cli import main; main()"]
"""``prism-sim`` of this source tree, as a command."""


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


@contextlib.contextmanager
def started(command: list[str], cwd: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start ``command`` with its output piped; its whole process group ends with the block."""
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    process = subprocess.Popen(
        command, cwd=cwd, text=True, start_new_session=True, preexec_fn=_default_signals, **piped
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def completed(
    command: list[str], cwd: Path, timeout_s: float = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` to its end; its exit code is the caller's business."""
    with started(command, cwd, **options) as process:
        out, err = process.communicate(timeout=timeout_s)
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def wait_until(happened: Callable[[], bool], timeout_s: float = 300) -> None:
    """Return as soon as ``happened``; fail if it has not within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline, f"did not happen within {timeout_s} s"
        time.sleep(0.02)

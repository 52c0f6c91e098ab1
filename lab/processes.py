"""Processes of a run: started in a network namespace, ended in the opposite order."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 5.0
"""Time that a process has to end after it was asked to [s]."""


def inside(namespace: str | None) -> list[str]:
    """Return the words before a command that is to run in a network namespace."""
    return [] if namespace is None else ["nsenter", f"--net=/run/netns/{namespace}", "--"]


class Processes:
    """Background processes; leaving the context ends all of them."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started: list[tuple[subprocess.Popen[bytes], int]] = []
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(
        self,
        command: Sequence[str],
        log: str,
        namespace: str | None = None,
        ends_with: int = signal.SIGTERM,
        env: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command; its output goes to the file ``log``."""
        with (self._logs / f"{log}.log").open("wb") as out:
            process = subprocess.Popen(
                [*inside(namespace), *command],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env,
            )  # fmt: skip
        self._started.append((process, ends_with))
        return process

    def end(self) -> None:
        """End all processes that still run, all at once, and wait for them."""
        for process, number in reversed(self._started):
            if process.poll() is None:
                process.send_signal(number)
        for process, _ in reversed(self._started):
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            if process.poll() is None:
                process.kill()
                process.wait()
        self._started.clear()

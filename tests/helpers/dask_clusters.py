"""A Dask cluster on loopback: a real scheduler and two workers, each a process."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

from distributed import Client

from processes import started, wait_until

UNOBSERVED = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "False",
}
"""Dask looks at itself up to a hundred times a second, in each of its processes."""


@dataclass(frozen=True)
class DaskCluster:
    """The address of a scheduler, and its two workers."""

    address: str
    workers: list[Popen[str]]

    def kill_a_busy_worker(self) -> None:
        """Wait until a worker has a task, and kill it."""
        with Client(self.address, set_as_default=False) as client:
            pids = client.run(os.getpid)
            wait_until(lambda: any(client.processing().values()), 60)
            busy = next(worker for worker, tasks in client.processing().items() if tasks)
            os.kill(pids[busy], signal.SIGKILL)


@contextmanager
def dask_cluster(folder: Path) -> Iterator[DaskCluster]:
    """Start a cluster whose files are in ``folder``; it ends with the block."""
    note, home = folder / "scheduler.json", ["--host", "127.0.0.1", "--no-dashboard"]
    dask = [sys.executable, "-m"]
    scheduler = [*dask, "distributed.cli.dask_scheduler", *home, "--port", "0"]
    nothing: dict[str, Any] = {
        "stdout": DEVNULL, "stderr": DEVNULL, "env": os.environ | UNOBSERVED
    }  # fmt: skip
    with ExitStack() as stack:
        command = [*scheduler, "--scheduler-file", str(note)]
        stack.enter_context(started(command, folder, **nothing))
        wait_until(lambda: note.exists() and bool(note.read_text().strip()), timeout_s=60)
        address = json.loads(note.read_text())["address"]
        worker = [*dask, "distributed.cli.dask_worker", address, *home, "--nthreads", "1"]
        place = ["--no-nanny", "--local-directory", str(folder / "workers")]
        workers = [
            stack.enter_context(started([*worker, *place], folder, **nothing)) for _ in range(2)
        ]
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield DaskCluster(address, workers)

"""``llmprism watch`` as a process of its own, and what processes use (proc(5))."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIMES = slice(11, 15)  # of the fields of /proc/PID/stat after the name


@dataclass(frozen=True)
class Watching:
    """A monitor that runs, and the folder of its state."""

    process: subprocess.Popen[bytes]
    state: Path

    def stored(self) -> dict[str, Any]:
        """The state that is stored; empty before the first one."""
        return stored(self.state)

    def cpu_s(self) -> float:
        """CPU time so far, with that of children that have ended [s]."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        times = text.rpartition(")")[2].split()[_TIMES]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self, name: str) -> int:
        """A size of the process by its name: ``RssAnon``, ``RssFile``, or ``VmHWM``, the peak."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        sizes = dict(line.split(":", 1) for line in lines)
        return int(sizes[name].split()[0]) * 1024


def stored(state: Path) -> dict[str, Any]:
    """The content of the file of a monitor's state; empty if there is none."""
    path = state / "state.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return content


@contextmanager
def watching(source: str, topology: Path, folder: Path, *options: str) -> Iterator[Watching]:
    """Watch a source, with state and errors in ``folder``; the process is killed in the end."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "llmprism", "watch", source, "--topology", str(topology)]
    command += ["--state", str(folder / "state"), "--lag-bound", "2000000000s", "--quiet"]
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=errors)
        try:
            yield Watching(process, folder / "state")
        finally:
            process.kill()
            process.wait()


def used_s() -> float:
    """CPU time of the children of this process that have ended [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

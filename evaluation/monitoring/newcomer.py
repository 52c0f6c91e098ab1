"""How long it takes from a clone of the repository to a finding on the live page: ``make live``.

Each phase ends when its line appears on the output of ``make``, and the last one with the first
incident that the page is sent.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_CHILDREN
from typing import NamedTuple
from urllib import request

from evaluation.monitoring.process import cpu_s, stat, used_s
from evaluation.paths import ROOT

PHASES = (
    ("the repository is cloned", r""),
    ("an environment is made", r"^environment in .*: \d+ s"),
    ("libraries are installed", r"^llmprism and prism-sim .*: \d+ s"),
    ("a cluster is simulated", r"^simulate: "),
    ("the page is there", r"live page: (http\S+)"),
)
SHOWN = "the page has a finding"
_OWN = {"PATH", "HOME", "LANG"}  # variables of the shell; and those of pip
_LIMIT_S = 300.0
_SESSION = 3  # field of /proc/PID/stat after the name


class Phase(NamedTuple):
    """What was reached, and the time and the CPU time since the begin [s]."""

    name: str
    at_s: float
    cpu_s: float


class Newcomer(NamedTuple):
    """What was reached when.

    Attributes
    ----------
    cpu_s : CPU time of all phases, while the page was served as well [s].
    load : processes of this machine that ran or waited for a core, over the last minute.
    """

    phases: list[Phase]
    cpu_s: float
    load: float


def measure(folder: Path) -> Newcomer:
    """Clone the repository into ``folder``, and follow the README until a finding is shown."""
    names = {name for name in os.environ if name in _OWN or name.startswith("PIP_")}
    clean = {name: os.environ[name] for name in names} | {"MAKEFLAGS": ""}
    began_s, before_s = time.monotonic(), used_s(RUSAGE_CHILDREN)
    clone = ["git", "clone", "--quiet", "--local", str(ROOT), str(folder)]
    subprocess.run(clone, check=True)
    cloned_s = used_s(RUSAGE_CHILDREN) - before_s
    phases = [Phase(PHASES[0][0], time.monotonic() - began_s, cloned_s)]
    process = subprocess.Popen(
        ["make", "--no-print-directory", "live"], cwd=folder, env=clean, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:

        def reached(name: str) -> None:
            used_s = cloned_s + _session_s(process.pid)
            phases.append(Phase(name, time.monotonic() - began_s, used_s))

        url = _wait(process, reached)
        _wait_for_incident(url)
        reached(SHOWN)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    return Newcomer(phases, used_s(RUSAGE_CHILDREN) - before_s, os.getloadavg()[0])


def _wait(process: subprocess.Popen[str], reached: Callable[[str], None]) -> str:
    """Follow the output up to the address of the page."""
    assert process.stdout is not None
    output = []
    for line in process.stdout:
        output.append(line)
        for name, pattern in PHASES[1:]:
            if found := re.search(pattern, line):
                reached(name)
                if found.groups():
                    return str(found[1])
    raise RuntimeError(f"there is no live page:\n{''.join(output)}")


def _wait_for_incident(url: str) -> None:
    """Read what the page is sent, until it has an incident."""
    until_s = time.monotonic() + _LIMIT_S
    with request.urlopen(f"{url}events", timeout=_LIMIT_S) as stream:
        for line in stream:
            if line.startswith(b"data:") and json.loads(line[5:])["incidents"]:
                return
            if time.monotonic() > until_s:
                break
    raise RuntimeError(f"the page shows no finding within {_LIMIT_S:.0f} s")


def _session_s(session: int) -> float:
    """CPU time of the processes of a session, and of those that they have waited for [s]."""
    found_s = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = stat(process)
            found_s += cpu_s(fields) if int(fields[_SESSION]) == session else 0.0
    return found_s

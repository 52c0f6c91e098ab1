"""Build SimGrid, the peer, on first use, and run it on a flow set.

SimGrid 3.32 comes with Debian 12: ``apt-get install libsimgrid-dev g++``. Only comparisons with
SimGrid need it. If it is missing, they say so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent / "simgrid" / "ringbench.cpp"
PROGRAM = SOURCE.parent / "build" / SOURCE.stem
HOW = "not measured: SimGrid is missing (apt-get install libsimgrid-dev g++)"


class NoPeerError(Exception):
    """SimGrid cannot be used here; the message gives the reason and the remedy."""


@dataclass(frozen=True)
class Timing:
    """Number of flows of a SimGrid run, and CPU time of the simulation [s]."""

    flows: int
    seconds: float


def build() -> Path:
    """Compile the peer if it is older than its source; return the program.

    Raises
    ------
    NoPeerError : the compiler or SimGrid is missing, or the compilation fails.
    """
    if PROGRAM.exists() and PROGRAM.stat().st_mtime >= SOURCE.stat().st_mtime:
        return PROGRAM
    compiler = shutil.which("g++")
    if compiler is None:
        raise NoPeerError(HOW)
    PROGRAM.parent.mkdir(exist_ok=True)
    command = [compiler, "-std=c++17", "-O2", "-o", str(PROGRAM), str(SOURCE), "-lsimgrid"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        missing = "simgrid" in done.stderr.partition("\n")[0] and "No such file" in done.stderr
        raise NoPeerError(HOW if missing else f"g++ cannot compile {SOURCE.name}:\n{done.stderr}")
    return PROGRAM


def run(flow_set: Path, answer: Path, *options: str) -> Timing:
    """Run SimGrid on ``flow_set`` with its own ``options``, and write its ``answer``."""
    command = [str(build()), str(flow_set), str(answer), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoPeerError(f"SimGrid failed on {flow_set}:\n{done.stderr}")
    result = json.loads(done.stdout)
    return Timing(result["flows"], result["seconds"])

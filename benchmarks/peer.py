"""SimGrid, the peer: built on first use, and run on a flow set.

SimGrid 3.32 comes with Debian 12: ``apt-get install libsimgrid-dev g++``. Nothing else of
the project needs it; where it is missing, what compares with it says so.
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
    """SimGrid cannot be used here; the text says why, and what to do."""


@dataclass(frozen=True)
class Timing:
    """What SimGrid says of its run: number of flows, CPU time of the simulation [s]."""

    flows: int
    seconds: float


def build() -> Path:
    """Compile the peer if it is older than its source; returns the program.

    Raises
    ------
    NoPeerError : there is no compiler or no SimGrid, or they do not get along.
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
        raise NoPeerError(HOW if missing else f"g++ refuses {SOURCE.name}:\n{done.stderr}")
    return PROGRAM


def run(flow_set: Path, answer: Path, *options: str) -> Timing:
    """Have SimGrid run ``flow_set`` and write its ``answer``; ``options`` are its own."""
    command = [str(build()), str(flow_set), str(answer), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoPeerError(f"SimGrid failed on {flow_set}:\n{done.stderr}")
    said = json.loads(done.stdout)
    return Timing(said["flows"], said["seconds"])

"""What the lab needs of a machine: root, namespaces, tools, and the libraries of its trainers.

Everything that is missing is reported at once, with the command that installs it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable

from prism_common.errors import Problem, UserError

TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "ping": "iputils-ping",
    "tcpdump": "tcpdump",
    "softflowd": "softflowd",
    "nfcapd": "nfdump",
    "nfdump": "nfdump",
}
MPI_TOOLS = {"mpirun": "openmpi-bin"}


def check(mpi: bool) -> None:
    """Raise a :class:`UserError` that lists everything that is missing."""
    problems = [*_root(), *_tools(TOOLS | (MPI_TOOLS if mpi else {})), *_libraries(mpi)]
    if problems:
        raise UserError(problems)


def _root() -> Iterable[Problem]:
    if not sys.platform.startswith("linux"):
        yield Problem("the lab needs network namespaces", "this machine", "use a Linux machine")
    elif os.geteuid() != 0:
        yield Problem("the lab needs root", "this user", "run: sudo make lab CASE=...")


def _tools(wanted: dict[str, str]) -> Iterable[Problem]:
    missing = {tool: package for tool, package in wanted.items() if shutil.which(tool) is None}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        what = f"not installed: {', '.join(sorted(missing))}"
        yield Problem(what, "this machine", f"run: apt-get install -y {packages}")


def _libraries(mpi: bool) -> Iterable[Problem]:
    wanted = ["torch", *(["mpi4py"] if mpi else [])]
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        what = f"Python packages are missing: {', '.join(missing)}"
        yield Problem(what, sys.executable, f"run: {sys.executable} -m pip install -e '.[lab]'")

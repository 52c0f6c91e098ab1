"""Namespaces of its own for every run: nothing outside is touched, nothing is left behind.

A run is a child process in new network, mount and process namespaces. Names of network
namespaces, and the files of the name service, are mounts that only this child and its children
see. When the child ends, however it ends, the kernel ends all processes that it started, and with
the last of them go the mounts, the network namespaces, and the cables between them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from lab.network import run

WORDS = ("setpriv", "--pdeathsig", "KILL", "--", "unshare", "--net", "--mount", "--propagation",
         "private", "--pid", "--fork", "--kill-child", "--mount-proc", "--")  # fmt: skip
MARK = "PRISM_LAB_INSIDE"


def is_inside() -> bool:
    """Return whether this process runs in namespaces of its own."""
    return os.environ.get(MARK) == str(os.getpid()) == "1"


def run_inside(words: list[str]) -> int:
    """Run ``python -m lab WORDS`` in new namespaces; return its exit code.

    On Ctrl-C or SIGTERM everything in the namespaces is ended first.
    """
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    env = os.environ | {MARK: "1", "PYTHONPATH": path}
    child = subprocess.Popen([*WORDS, sys.executable, "-m", "lab", *words], env=env,
                             start_new_session=True)  # fmt: skip
    before = {n: signal.signal(n, _interrupt) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        return child.wait()
    finally:
        child.kill()
        child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def prepare() -> Path:
    """Make the names of network namespaces private; call it inside only.

    Returns a folder for what a run needs only while it lasts; it goes with the mount.
    """
    names = Path("/run/netns")
    names.mkdir(exist_ok=True)
    run(["mount", "-t", "tmpfs", "lab", str(names)])
    room = names / ".room"
    room.mkdir()
    return room

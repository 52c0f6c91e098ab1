"""Working folders that are removed even if their process is killed.

A working folder is removed at the end of its block. ``kill -9`` leaves no time for that, so the
next one that is made in the same place removes those that are left over. Each holds a file that its
process keeps locked; the operating system releases the lock when the process ends. A folder is
removed only if it has our name, belongs to this user, and has such a file with our text that is not
locked, or nothing at all and the number of a process that no longer runs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prism_common.files import is_running

OWNER = ".prism-owner"
_WORDS = b"Working folder of prism; removed when its owner is gone.\n"
_LONGEST = 100  # characters of a folder's name that a working folder beside it has


@contextmanager
def working_folder(beside: Path | None = None) -> Iterator[Path]:
    """A new folder in the system's temporary folder, or next to ``beside``; removed at the end."""
    parent = Path(tempfile.gettempdir()) if beside is None else beside.parent
    prefix = "prism-" if beside is None else f".{beside.name[:_LONGEST]}.prism-"
    remove_abandoned(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent))
    lock = os.open(folder / OWNER, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, _WORDS)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned(parent: Path, prefix: str) -> list[Path]:
    """Remove the working folders in ``parent`` whose process has ended; returns them."""
    name = re.compile(rf"{re.escape(prefix)}(\d+)-\w+")
    gone = []
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            match = name.fullmatch(entry.name)
            if match and _is_abandoned(Path(entry.path), int(match[1])):
                shutil.rmtree(entry.path, ignore_errors=True)
                gone.append(Path(entry.path))
    return gone


def _is_abandoned(folder: Path, process: int) -> bool:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid() or is_running(process):
            return False
        if not any(folder.iterdir()):
            return True
        lock = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # no file of ours, or it was removed in the meantime
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _WORDS.startswith(os.read(lock, len(_WORDS) + 1))  # killed while it wrote
    except OSError:  # it is locked
        return False
    finally:
        os.close(lock)

"""Temporary folders that are removed even if their process is killed.

A temporary run uses a temporary folder, which is removed at the end. ``kill -9`` leaves no time
for that. So each folder contains a file that its process keeps locked; the operating system
releases the lock when the process ends. At the next start, a folder is removed only if it has
such a file with our text, belongs to this user, and is not locked. A process may also be killed
before the file is complete: then the folder holds nothing else, and its name has the number of a
process that no longer runs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "prism-sim-"
OWNER = ".prism-sim-owner"
_WORDS = b"Working folder of prism-sim; removed when its owner is gone.\n"


@contextmanager
def working_folder() -> Iterator[Path]:
    """A new folder in the system's temporary folder, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    lock = os.open(folder / f"{OWNER}.new", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, _WORDS)
        (folder / f"{OWNER}.new").rename(folder / OWNER)  # never visible unlocked
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> list[Path]:
    """Remove working folders whose process has ended; returns them."""
    gone = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder)
    return gone


def _is_abandoned(folder: Path) -> bool:
    try:
        ours = not folder.is_symlink() and folder.stat().st_uid == os.getuid()
        if ours and not (folder / OWNER).exists():
            return _is_unfinished(folder)
        lock = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW) if ours else None
    except OSError:  # no such file, or it was removed in the meantime
        return False
    if lock is None:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.read(lock, len(_WORDS) + 1) == _WORDS
    except OSError:  # it is locked
        return False
    finally:
        os.close(lock)


def _is_unfinished(folder: Path) -> bool:
    """Whether the folder has nothing but our incomplete file, and its process has ended."""
    number = folder.name.removeprefix(PREFIX).partition("-")[0]
    if not number.isdecimal() or {path.name for path in folder.iterdir()} - {f"{OWNER}.new"}:
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it runs, for another user
        return False
    return False

"""Working folders that do not outlive their owner for long, even if that is killed outright.

A run that nobody wants to keep is made in a temporary folder, which is removed when it is
done. ``kill -9`` leaves no time for that. So each folder holds a file that its owner keeps
locked for as long as it lives; the operating system releases the lock when the process ends,
however it ends. At the next start, a folder is removed only if it has such a file, with our
words in it, belongs to this user, and nobody holds the lock.
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
    """A new folder below the system's temporary one, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(folder / f"{OWNER}.new", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, _WORDS)
        (folder / f"{OWNER}.new").rename(folder / OWNER)  # nobody sees it unlocked
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> list[Path]:
    """Remove working folders whose owner is gone; returns those that were removed."""
    gone = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder)
    return gone


def _is_abandoned(folder: Path) -> bool:
    try:
        ours = not folder.is_symlink() and folder.stat().st_uid == os.getuid()
        lock = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW) if ours else None
    except OSError:  # no such file, or it was removed in the meantime
        return False
    if lock is None:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.read(lock, len(_WORDS) + 1) == _WORDS
    except OSError:  # somebody holds it
        return False
    finally:
        os.close(lock)

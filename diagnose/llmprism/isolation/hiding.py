"""Hides files from this process and its children, and notices if one of them is opened.

Each hidden folder is covered with a file system that contains empty files of the same names; each
hidden file is covered with an empty one. Other processes see no difference, because the covers are
in a mount namespace of this process. The system needs root, or user namespaces, for that.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from llmprism.isolation import kernel

_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_BUFFER = 1 << 16


def hide(paths: Sequence[Path], empty: Path) -> bool:
    """Cover ``paths`` for this process and its children; False if the system refuses.

    Empty files beside ``empty`` cover files.
    """
    try:
        _enter_namespace()
        kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
        for number, path in enumerate(paths):
            own = empty.with_name(f"{empty.name}-{number}")  # so that each is told from the others
            own.touch()
            _cover(path, own)
    except OSError:
        return False
    return True


def _enter_namespace() -> None:
    """Enter a mount namespace of our own; without root, inside a user namespace."""
    user, group = os.getuid(), os.getgid()
    with suppress(PermissionError):
        kernel.unshare(kernel.CLONE_NEWNS)
        return
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _cover(path: Path, empty: Path) -> None:
    if not path.is_dir():
        kernel.mount(str(empty), str(path), "", kernel.MS_BIND)
        return
    names = [entry.name for entry in path.iterdir() if entry.is_file()]
    kernel.mount("tmpfs", str(path), "tmpfs", 0, "size=1m")
    for name in names:
        (path / name).touch()
    kernel.mount("", str(path), "", kernel.MS_REMOUNT | kernel.MS_RDONLY)


class Watch:
    """Notices which of ``paths``, or of the files in them, are opened from now on."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._queue = kernel.open_inotify()
        self._names = {kernel.watch_openings(self._queue, str(path)): path.name for path in paths}

    def opened(self) -> list[str]:
        """Names of the opened files, each once, such as ``truth/faults.parquet``."""
        return sorted(set(self._events()))

    def _events(self) -> Iterator[str]:
        with suppress(BlockingIOError):
            while data := os.read(self._queue, _BUFFER):
                while data:
                    number, mask, _, length = _EVENT.unpack_from(data)
                    name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0")
                    data = data[_EVENT.size + length :]
                    if number in self._names and not mask & kernel.IN_ISDIR:
                        yield "/".join(filter(None, (self._names[number], os.fsdecode(name))))

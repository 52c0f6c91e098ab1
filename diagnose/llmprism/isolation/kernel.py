"""System calls of Linux that the standard library lacks; elsewhere, each raises OSError."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

CLONE_NEWNS, CLONE_NEWUSER = 0x0002_0000, 0x1000_0000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
IN_OPEN, IN_ISDIR = 0x20, 0x4000_0000
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_CAPABILITY_VERSION_3 = 0x2008_0522
_ADMINISTRATIVE = (2, 17, 18, 19, 21, 27)
"""Read and search anything, raw devices, chroot, trace processes, mount, make device files."""


@cache
def _libc() -> Any:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "only Linux has this system call")
    return ctypes.CDLL(None, use_errno=True)


def _checked(call: Callable[..., int], *arguments: Any) -> int:
    result = call(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def end_with_parent(signal_number: int) -> None:
    """Get this signal when the parent process ends."""
    _checked(_libc().prctl, _PR_SET_PDEATHSIG, signal_number, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends."""
    _checked(_libc().prctl, _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def unshare(flags: int) -> None:
    """Leave shared namespaces."""
    _checked(_libc().unshare, flags)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount ``source`` at ``target``."""
    texts = [text.encode() or None for text in (source, target, kind)]
    _checked(_libc().mount, *texts, ctypes.c_ulong(flags), data.encode() or None)


def drop_administrative_rights() -> None:
    """Give up the rights to mount, to trace processes and to make devices, for good."""
    libc = _libc()
    _checked(libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits
    _checked(libc.capget, head, sets)
    kept = ~sum(1 << number for number in _ADMINISTRATIVE) & 0xFFFF_FFFF
    if os.geteuid() == 0 or sets[1]:
        for number in _ADMINISTRATIVE:
            _checked(libc.prctl, _PR_CAPBSET_DROP, number, 0, 0, 0)
    for place in range(3):
        sets[place] &= kept
    _checked(libc.capset, head, sets)


def open_inotify() -> int:
    """Descriptor of a new, non-blocking queue of file events."""
    return _checked(_libc().inotify_init1, os.O_NONBLOCK | os.O_CLOEXEC)


def watch_openings(queue: int, path: str) -> int:
    """Let ``queue`` receive an event whenever ``path``, or a file in it, is opened."""
    return _checked(_libc().inotify_add_watch, queue, path.encode(), IN_OPEN)

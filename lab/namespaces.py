"""Entering a network namespace from Python, for as long as a socket is made or for good."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000


def enter(name: str) -> None:
    """Move this thread into the network namespace ``name``."""
    with open(f"/run/netns/{name}", "rb") as handle:
        _set(handle.fileno())


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Sockets that are made in this block belong to the network namespace ``name``."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(name)
        yield
    finally:
        _set(home)
        os.close(home)


def _set(handle: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(handle, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "setns")

"""Several calls at once: numpy computes large arrays without the lock of the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(call: Callable[[T], R], values: Iterable[T]) -> list[R]:
    """``call`` of every value, in order, on all cores of this process.

    The first error is raised when all calls have ended.
    """
    every = list(values)
    threads = min(len(every), cores())
    if threads < 2:
        return [call(value) for value in every]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(call, every))


def both(first: Callable[[], T], second: Callable[[], R]) -> tuple[T, R]:
    """The results of two calls at once; one after the other on a single core."""
    if cores() < 2:
        return first(), second()
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(second)
        return first(), later.result()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

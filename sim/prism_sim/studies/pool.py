"""Many tasks in a few processes: no task is lost, and no worker outlives its parent.

A task that fails gives its error as text, and the others continue. A task that kills its process
(out of memory, crash of a library) breaks the whole pool of processes. The tasks that were
running are then repeated, each in a pool of its own, which identifies the one that fails;
the remaining tasks continue in a new pool.

Tasks are read one by one, only a few in advance, so there may be very many.

Workers ignore Ctrl-C. Their parent ends them with a signal on which they clean up, so no partial
file is left. If the parent is killed, they end themselves.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from prism_common.errors import UserError
from prism_common.program import NO_MEMORY, is_memory_error
from prism_common.threads import cores

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE_S = 10.0  # for a worker to clean up
_AGAIN_S = 0.01  # until a signal that had no effect is repeated
_WAITING = 2  # tasks handed to the pool, for each process

_MINUTE_S, _HOUR_S = 60, 3600
_FIRST = 3  # tasks whose time says little about the others

DIED = "the worker process died; it was probably out of memory"
UNREADABLE = "cannot import what its task needs (is the plug-in installed there?)"


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """Outcome of a task: its ``result``, or the ``error`` as text."""

    result: R | None = None
    error: str | None = None


class Workers(Protocol):
    """Workers that do tasks in parallel."""

    def outcomes(
        self, work: Callable[[T], R], tasks: Iterable[T]
    ) -> Iterator[tuple[T, Outcome[R]]]:
        """Do ``work`` on every task; yields each task with its outcome when it is complete."""


@dataclass(frozen=True)
class Processes:
    """Processes of this machine."""

    number: int

    def outcomes(
        self, work: Callable[[T], R], tasks: Iterable[T]
    ) -> Iterator[tuple[T, Outcome[R]]]:
        return outcomes(work, tasks, self.number)


def default_processes() -> int:
    """The number of cores that this process may use."""
    return cores()


def outcomes(
    work: Callable[[T], R], tasks: Iterable[T], processes: int
) -> Iterator[tuple[T, Outcome[R]]]:
    """Do ``work`` on every task; yields each task with its outcome when it is complete.

    Parameters
    ----------
    work : a function at the top level of a module, so that other processes can import it.
    tasks : its arguments; must be picklable.
    processes : number of parallel processes; with 1, all work is done in this process.
    """
    ahead = iter(tasks)
    first = list(islice(ahead, 2))
    ahead = chain(first, ahead)
    if processes <= 1 or len(first) <= 1:
        for task in ahead:
            yield task, attempt(work, task)
        return
    broken = True
    while broken:
        interrupted = yield from _together(work, ahead, processes)
        broken = bool(interrupted)
        for task in interrupted:
            if (yield from _together(work, iter([task]), 1)):
                yield task, Outcome(error=DIED)


def attempt(work: Callable[[T], R], task: T) -> Outcome[R]:
    """Do ``work`` on one task; any exception becomes text."""
    try:
        return Outcome(work(task))
    except UserError as error:
        return Outcome(error=str(error))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(last.filename)}:{last.lineno}"
        return _failed(error, f"{type(error).__name__}: {error} ({place})")


def _failed(error: Exception, text: str) -> Outcome[Any]:
    """The outcome of an ``error``: ``text``, unless memory was not enough."""
    return Outcome(error=NO_MEMORY if is_memory_error(error) else text)


def _together(
    work: Callable[[T], R], tasks: Iterator[T], processes: int
) -> Generator[tuple[T, Outcome[R]], None, list[T]]:
    """Like :func:`outcomes`, until a process dies; returns the interrupted tasks."""
    # A new interpreter for each: a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin_worker)
    interrupted: list[T] = []
    waiting: dict[Future[Outcome[R]], T] = {}
    try:
        while True:
            room = 0 if interrupted else _WAITING * processes - len(waiting)
            for task in islice(tasks, room):
                _submit(executor, work, task, waiting, interrupted)
            if not waiting:
                break
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                task = waiting.pop(future)
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    interrupted.append(task)
                else:
                    yield task, outcome
        executor.shutdown()
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        _end_children(others)
        raise
    return interrupted


def _submit(
    executor: ProcessPoolExecutor,
    work: Callable[[T], R],
    task: T,
    waiting: dict[Future[Outcome[R]], T],
    interrupted: list[T],
) -> None:
    try:
        waiting[executor.submit(_attempt, pickle.dumps((work, task)))] = task
    except BrokenProcessPool:
        interrupted.append(task)


def _end_children(others: set[Any]) -> None:
    """End every child process except ``others``, and wait for them."""
    ours = [child for child in multiprocessing.active_children() if child not in others]
    for child in ours:
        child.terminate()
    for child in ours:
        child.join()


def _attempt(packed: bytes) -> Outcome[Any]:
    """Do the work on the task in ``packed``; a worker may lack a package that defines them."""
    try:
        work, task = pickle.loads(packed)
    except Exception as error:
        return _failed(error, f"the worker process {UNREADABLE}: {type(error).__name__}: {error}")
    try:
        return attempt(work, task)
    except SystemExit:
        # The parent ends this worker after it has cleaned up. The pool would catch a plain
        # exit and start the next task.
        os._exit(128 + signal.SIGTERM)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for one in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(one, _end_worker)
    sys.unraisablehook = _unraisable
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent no longer exists, even if the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PATIENCE_S)
        os._exit(128 + signal.SIGTERM)


def _end_worker(_: int, frame: FrameType | None) -> None:
    if frame is not None and frame.f_code is _unraisable.__code__:
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        return
    raise SystemExit(128 + signal.SIGTERM)


def _unraisable(what: sys.UnraisableHookArgs) -> None:
    """Signal again if a finalizer or a callback of the interpreter ran, as they pass on no exit.

    Otherwise the worker would print that and go on with its task.
    """
    if isinstance(what.exc_value, SystemExit):
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        sys.__unraisablehook__(what)


class Remaining:
    """Measures the rate at which tasks end.

    Parameters
    ----------
    now_s : a clock.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._began_s = now_s()

    def sentence(self, done: int, left: int) -> str:
        """A clause about the remaining time; empty if none is left, or too few tasks are done."""
        if done <= _FIRST:  # they also start processes, import and compile
            self._began_s = self._now_s()
        if done <= _FIRST or left <= 0:
            return ""
        seconds = (self._now_s() - self._began_s) / (done - _FIRST) * left
        return f", about {rounded(seconds)} left"


def rounded(seconds: float) -> str:
    """A duration without false precision.

    >>> rounded(0.3), rounded(95), rounded(1_900), rounded(9_000)
    ('1 s', '2 min', '32 min', '2.5 h')
    """
    if seconds < 1.5 * _MINUTE_S:
        return f"{max(1, round(seconds))} s"
    if seconds < 1.5 * _HOUR_S:
        return f"{round(seconds / _MINUTE_S)} min"
    return f"{seconds / _HOUR_S:.1f} h"

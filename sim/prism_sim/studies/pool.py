"""Many tasks in a few processes: none is lost, and none outlives the one who asked.

A task that fails says why, as text, and the others go on. One that takes its process down
with it (the system was out of memory, a library crashed) brings down the whole pool of
processes; the tasks that were under way are then tried once more, each in a pool of its
own, so that the one at fault is told apart from its neighbours.

Workers leave Ctrl-C to the process that asked. It ends them by the signal that lets them
clean up, and no half-written file of theirs is left behind. If it is killed, they notice.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llmprism.errors import UserError

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE_S = 10.0  # for a worker to clean up after itself


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What became of a task: its ``result``, or the ``error`` in words."""

    result: R | None = None
    error: str | None = None


def default_processes() -> int:
    """As many processes as there are cores that this one may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def outcomes(
    work: Callable[[T], R], tasks: Sequence[T], processes: int
) -> Iterator[tuple[T, Outcome[R]]]:
    """Do ``work`` on every task, and yield each with its outcome as soon as it is there.

    Parameters
    ----------
    work : a function at the top level of a module, so that other processes can import it.
    tasks : what it is called with; must be picklable.
    processes : how many at once; with 1, all is done in this process.
    """
    if processes <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, attempt(work, task)
        return
    interrupted_by_crash: list[T] = []
    for task, outcome in _together(work, tasks, processes):
        if outcome is None:
            interrupted_by_crash.append(task)
        else:
            yield task, outcome
    for task in interrupted_by_crash:
        for _, outcome in _together(work, [task], 1):
            yield task, outcome or Outcome(error="the process ended without a word")


def attempt(work: Callable[[T], R], task: T) -> Outcome[R]:
    """Do ``work`` on one task; whatever goes wrong becomes text."""
    try:
        return Outcome(work(task))
    except UserError as error:
        return Outcome(error=str(error))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(last.filename)}:{last.lineno}"
        return Outcome(error=f"{type(error).__name__}: {error} ({place})")


def _together(
    work: Callable[[T], R], tasks: Sequence[T], processes: int
) -> Iterator[tuple[T, Outcome[R] | None]]:
    """Like :func:`outcomes`; None for a task that was not done because a process died."""
    # A fresh interpreter for each: a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin_worker)
    try:
        waiting = {executor.submit(_attempt, work, task): task for task in tasks}
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), _told(future)
        executor.shutdown()
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        ours = [child for child in multiprocessing.active_children() if child not in others]
        for child in ours:
            child.terminate()
        for child in ours:
            child.join()
        raise


def _told(future: Future[Outcome[R]]) -> Outcome[R] | None:
    try:
        return future.result()
    except BrokenProcessPool:
        return None


def _attempt(work: Callable[[T], R], task: T) -> Outcome[R]:
    try:
        return attempt(work, task)
    except SystemExit:
        # Told to end, and everything is cleaned up. A plain exit would be caught by the pool,
        # which would then begin with the next task.
        os._exit(128 + signal.SIGTERM)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_worker)
    threading.Thread(target=_outlive_nobody, daemon=True).start()


def _outlive_nobody() -> None:
    """End this worker when the process that asked is gone, even if it was killed outright."""
    asker = multiprocessing.parent_process()
    if asker is not None:
        asker.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PATIENCE_S)
        os._exit(128 + signal.SIGTERM)


def _end_worker(*_: Any) -> None:
    raise SystemExit(128 + signal.SIGTERM)

"""What comes from outside while a monitor runs, and may be anything: one guard around all of it.

A *part* is something that is read again (topology, names, configuration), told (a listener), or run
in a thread. Whatever exception it ends with, what was known before holds: the failure is counted,
logged once, and stands in ``problems`` until the part succeeds again. What is read has a time in
which it has to answer; until it does, nothing waits for it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from prism_common.errors import UserError
from prism_common.quantities import duration
from prism_common.service.logging import LOGGER

TOPOLOGY, NAMES, CONFIGURATION = "topology", "names", "configuration"
"""Parts that are read again."""
WAIT_S = 1.0
"""How long the loop of a monitor waits for an answer."""
_PATIENCE_S = 20.0  # for an answer, before that is a problem
_AGAIN_S = 1.0  # before a thread that failed begins again
_CALM_S = 60.0  # of a thread that began again
_LONGEST = 300  # characters of a reason

T = TypeVar("T")


def reason_of(error: BaseException) -> str:
    """What went wrong, on one line."""
    if isinstance(error, UserError):
        text = str(error.problems[0])
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = f"{type(error).__name__}: {error}"
    return text.strip().partition("\n")[0][:_LONGEST]


@dataclass
class Guard:
    """Keeps a monitor running whatever its parts do.

    Attributes
    ----------
    problems : why the last try of a part failed, by the name of the part.
    failures : number of failures of each part.
    """

    problems: dict[str, str] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    _threads_s: dict[str, float] = field(default_factory=dict)  # when each failed last
    _readings: dict[str, tuple[float, Future[Any]]] = field(default_factory=dict)

    def read(self, part: str, read: Callable[[], T], is_due: bool) -> T | None:
        """What a part says, read again if ``is_due``; None if it says nothing new, or fails.

        An answer that comes late is returned by a later call.
        """
        if part not in self._readings:
            if not is_due:
                return None
            self._readings[part] = time.monotonic(), _in_thread(read)
        since_s, answer = self._readings[part]
        wait([answer], WAIT_S if is_due else 0)
        if not answer.done():
            if time.monotonic() > since_s + _PATIENCE_S:
                late = f"it has not answered for {duration(_PATIENCE_S * 1e9)}"
                self.failed(part, TimeoutError(late))
            return None
        del self._readings[part]
        if (error := answer.exception()) is not None:
            self.failed(part, error)
            return None
        self.succeeded(part)
        found: T = answer.result()
        return found

    def attempt(self, part: str, do: Callable[[], object], raises: Collection[int] = ()) -> bool:
        """Do something; return whether it succeeded. OS errors with such numbers pass."""
        try:
            do()
        except Exception as error:
            if isinstance(error, OSError) and error.errno in raises:
                raise
            self.failed(part, error)
            return False
        self.succeeded(part)
        return True

    def thread(self, part: str, run: Callable[[], object]) -> threading.Thread:
        """Start a thread that runs until ``run`` returns; what fails begins again."""

        def repeat() -> None:
            while not self.attempt(part, run):
                self._threads_s[part] = time.monotonic()
                time.sleep(_AGAIN_S)

        made = threading.Thread(target=repeat, name=part, daemon=True)
        made.start()
        return made

    def present(self) -> dict[str, str]:
        """The problems; that of a thread is over when it has run for a while since."""
        for part, failed_s in [*self._threads_s.items()]:
            if time.monotonic() > failed_s + _CALM_S:
                del self._threads_s[part]
                self.succeeded(part)
        return dict(self.problems)

    def failed(self, part: str, error: BaseException) -> None:
        """Take note of a failure; what repeats is logged once."""
        text = reason_of(error)
        self.failures[part] += 1
        if part not in self.problems:
            LOGGER.error("%s: %s; what was known before holds", part, text)
        self.problems[part] = text

    def succeeded(self, part: str) -> None:
        """Take note that a part does what it should."""
        if self.problems.pop(part, ""):
            LOGGER.info("%s: all is well again", part)


def _in_thread(read: Callable[[], T]) -> Future[T]:
    """What something will have read, in a thread that ends with the process."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(read())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer

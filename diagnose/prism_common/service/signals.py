"""What the process is asked for by signals, also in the middle of long work.

Work that changes nothing until it is committed can be broken off at any point: it is done again
after the next start, as after a crash. So a signal to end is heard at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class InterruptedWork(BaseException):
    """The process was asked to end, in the middle of work that can be done again."""


@dataclass
class Signals:
    """What the process was asked for: to end, or to read its configuration again."""

    ended: threading.Event = field(default_factory=threading.Event)
    reload: threading.Event = field(default_factory=threading.Event)
    _is_breakable: bool = False

    @staticmethod
    def caught() -> Signals:
        """Catch SIGINT and SIGTERM, and SIGHUP."""
        found = Signals()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: found._end())
        signal.signal(signal.SIGHUP, lambda *_: found.reload.set())
        return found

    def _end(self) -> None:
        self.ended.set()
        if self._is_breakable:
            self._is_breakable = False
            raise InterruptedWork

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Let a signal to end break off what is done in the block."""
        self._is_breakable = True
        try:
            if self.ended.is_set():
                raise InterruptedWork
            yield
        finally:
            self._is_breakable = False

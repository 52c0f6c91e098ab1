"""The error that is reported to users: one line, without a traceback."""

from __future__ import annotations


class LogError(Exception):
    """The logs cannot be read: where, what, and how to correct it.

    >>> print(LogError("a.log", "is empty", "give a file with lines"))
    a.log: is empty; give a file with lines
    """

    def __init__(self, where: str, what: str, how: str) -> None:
        super().__init__(f"{where}: {what}; {how}")

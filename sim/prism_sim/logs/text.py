"""Times as programs print them, and messages: lines of one statement of one program.

All times are UTC [ns since 1970]. The part of a time stamp above one second is formatted once and
kept, as neighbouring lines share it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple

SECOND_NS = 1_000_000_000

Role = Literal["indicator", "cascade", "teardown", "boilerplate", "benign"]
"""What a line means for the failure; ordinary lines have none. See docs/logs.md."""


class Message(NamedTuple):
    """Output of one statement: its name (``tool.template``), and its lines."""

    event: str
    lines: tuple[str, ...]


def message(event: str, *texts: str) -> Message:
    """A message; each of ``texts`` is one line or several."""
    return Message(event, tuple(line for text in texts for line in text.split("\n")))


@lru_cache(4096)
def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


@lru_cache(4096)
def _formatted(second: int, pattern: str) -> str:
    return _moment(second).strftime(pattern)


def date_time(time_ns: int, separator: str = " ") -> str:
    """Date and time in whole seconds.

    >>> date_time(1_767_225_600_000_000_000)
    '2026-01-01 00:00:00'
    """
    return _formatted(time_ns // SECOND_NS, f"%Y-%m-%d{separator}%H:%M:%S")


def microseconds(time_ns: int) -> str:
    """``2026-01-01 00:00:00.000000``, as Python prints a datetime."""
    return f"{date_time(time_ns)}.{time_ns % SECOND_NS // 1000:06d}"


def milliseconds(time_ns: int) -> str:
    """``2026-01-01 00:00:00,000``, as Python's logging prints a time."""
    return f"{date_time(time_ns)},{time_ns % SECOND_NS // 1_000_000:03d}"


def padded_day(time_ns: int) -> str:
    """``0101 00:00:00.000000``: month, day and time as torch's Python log prints them."""
    whole, part = divmod(time_ns, SECOND_NS)
    return f"{_formatted(whole, '%m%d %H:%M:%S')}.{part // 1000:06d}"


def bare_day(time_ns: int) -> str:
    """``101 00:00:00.000000000``: as c10's log, which does not pad the month.

    >>> bare_day(1_767_225_600_000_000_000)
    '101 00:00:00.000000000'
    """
    whole, part = divmod(time_ns, SECOND_NS)
    moment = _moment(whole)
    return f"{moment.month * 100 + moment.day} {_formatted(whole, '%H:%M:%S')}.{part:09d}"


def syslog(time_ns: int) -> str:
    """``Jan  1 00:00:00``, as the journal prints a time."""
    moment = _moment(time_ns // SECOND_NS)
    return f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S}"

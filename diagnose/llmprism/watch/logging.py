"""What a monitor says on stderr: each line with its time and level, as text or as JSON.

The logger is that of the standard library, so a program that embeds a monitor can send its lines
elsewhere.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

from prism_common.errors import UserError
from prism_common.escapes import printable

LOGGER = logging.getLogger("llmprism.watch")
Format = Literal["text", "json"]
_LONGEST = 300  # characters of a reason
_NS = 1_000_000_000


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """``2026-11-28T07:30:00.000Z WARNING words``, on one line."""
        return f"{_time(record)} {record.levelname} {_one_line(record)}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The same as an object."""
        fields = {"time": _time(record), "level": record.levelname.lower()}
        return json.dumps(fields | {"message": _one_line(record)}, ensure_ascii=False)


def rfc3339(time_ns: int) -> str:
    """A time in UTC, to the millisecond.

    >>> rfc3339(1_500_000_000)
    '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(time_ns // _NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ns % _NS // 1_000_000:03d}Z"


def _time(record: logging.LogRecord) -> str:
    return rfc3339(round(record.created * _NS))


def _one_line(record: logging.LogRecord) -> str:
    return printable(" ".join(record.getMessage().split()))


def begin(form: Format, quiet: bool) -> None:
    """Write lines to stderr; if ``quiet``, errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    LOGGER.handlers = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.ERROR if quiet else logging.INFO)


def reason_of(error: Exception) -> str:
    """Why something failed, on one line."""
    if isinstance(error, UserError):
        text = str(error.problems[0])
    elif isinstance(error, OSError):
        text = str(getattr(error, "reason", None) or error.strerror or error)
    else:
        text = f"{type(error).__name__}: {error}"
    return text.partition("\n")[0][:_LONGEST]

"""Times in UTC, as alerts and lines have them."""

from __future__ import annotations

from datetime import UTC, datetime

_NS = 1_000_000_000


def rfc3339(time_ns: int) -> str:
    """A time in UTC, to the millisecond.

    >>> rfc3339(1_500_000_000)
    '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(time_ns // _NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ns % _NS // 1_000_000:03d}Z"

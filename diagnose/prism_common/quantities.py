"""Quantities as text: fractions as percentages, durations in the unit that fits, times in UTC."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise

EVEN = 0.5  # a statement with less confidence is more likely wrong than right
LONE = "time far from all others"
CLOCK_FROM_NS = 10**17  # 1973: smaller times do not count from the epoch


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``number`` of ``noun``, whose plural is regular unless given.

    >>> counted(1, "job"), counted(2, "job")
    ('1 job', '2 jobs')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def percent(fraction: float | None, digits: int = 1) -> str:
    """``0.0312`` as ``3.1 %``, with more digits near 0 and 100 %; a dash if undefined.

    >>> percent(0.99961), percent(-1.0), percent(0.0004), percent(28.1), percent(None)
    ('99.96 %', '-100 %', '0.04 %', '2,810 %', '-')
    """
    if fraction is None:
        return "-"
    value = 100 * fraction
    near = min(abs(value), abs(100 - abs(value)))
    if near < 5e-5:
        return f"{value + 0:.0f} %" if near == 0 else f"~{abs(value):.0f} %"
    if abs(value) > 1000:
        return f"{shortened(value)} %"
    while digits < 4 and near < 10**-digits:
        digits += 1
    return f"{value:.{digits}f} %"


def duration(ns: float | None) -> str:
    """Nanoseconds in the unit that fits their size: s, ms, us or ns; a dash if undefined.

    >>> duration(1_500_000), duration(999_996), duration(4.2e12), duration(-43), duration(None)
    ('1.50 ms', '1.00 ms', '4,200 s', '-43 ns', '-')
    """
    if ns is None or not math.isfinite(ns):
        return "-"
    if abs(ns) < 999.5:
        return f"{ns:.0f} ns"
    for unit, size in (("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        value = ns / size
        if abs(value) < 999.5 or unit == "s":
            break
    if abs(value) >= 999.5:
        return f"{shortened(value)} {unit}"
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def shortened(value: float) -> str:
    """A number with at most three significant digits.

    >>> shortened(41.2345), shortened(2), shortened(0.00041666), shortened(123_456)
    ('41.2', '2', '0.000417', '123,000')
    """
    if not 1e-4 <= abs(value) < 1e15:
        return f"{value:.3g}"
    return f"{float(f'{value:.3g}'):,.6f}".rstrip("0").rstrip(".")


def known_size(size: float | None, confidence: float | None) -> str:
    """A size of a layout; with a question mark where it is more likely wrong than right.

    >>> known_size(8, 0.9), known_size(8, 0.4), known_size(-1, 0.9), known_size(None, None)
    ('8', '8?', '?', '?')
    """
    if size is None or not size >= 0:
        return "?"
    return f"{size:.0f}" if confidence is None or confidence >= EVEN else f"{size:.0f}?"


def clock_time(time_ns: int, dated: bool = False) -> str:
    """An instant in UTC, to the millisecond.

    >>> clock_time(1_767_225_621_900_000_000), clock_time(1_767_225_621_900_000_000, True)
    ('00:00:21.900 UTC', '2026-01-01 00:00:21.900 UTC')
    >>> clock_time(12_300_000_000)  # a clock that does not count from the epoch
    '12.3 s'
    """
    if abs(time_ns) < CLOCK_FROM_NS:
        return duration(time_ns)
    try:
        seconds, rest_ns = divmod(time_ns, 1_000_000_000)
        instant = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ns} ns"
    day = f"{instant:%Y-%m-%d} " if dated else ""
    return f"{day}{instant:%H:%M:%S}.{rest_ns // 1_000_000:03d} UTC"


def lone_times(times_ns: Iterable[int]) -> frozenset[int]:
    """The first and the last time, if each is a day or more from the others, and a thousand times
    as far from them as half of them are from each other at most.

    >>> sorted(lone_times([*range(0, 10**10, 10**9), 86_500_000_000_000]))
    [86500000000000]
    """
    known = sorted({*times_ns})
    gaps = [after - before for before, after in pairwise(known)]
    if len(gaps) < 2:
        return frozenset()
    day_ns = 86_400 * 10**9
    most = max(day_ns, 1_000 * sorted(gaps)[(len(gaps) - 1) // 2])
    ends = ((known[0], gaps[0]), (known[-1], gaps[-1]))
    return frozenset(end for end, gap in ends if gap > most)

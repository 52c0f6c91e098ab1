"""Times of lines on one clock: offsets of nodes from what all ranks do at one moment.

Ranks that wait in the same collective time out within milliseconds of each other. All ranks leave
a barrier together: the rendezvous, the initialisation of NCCL, the end of an iteration. So the
median time of a node's lines about such a moment, minus the median over nodes, is the offset of its
clock. Of the kinds of moments, the one that most nodes show counts; of equals, the first in that
order. The offset of a node is the median over moments of this kind. Other nodes keep their clock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from statistics import median
from typing import NamedTuple

ITERATION = "iteration"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<part>\d+))?"
_FORMS = tuple(
    re.compile(form + _CLOCK)
    for form in (
        r"\d{4}[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T_]",
        r"(?P<month>\d{1,2})(?P<day>\d\d) ",
        r"(?P<month>\d\d)/(?P<day>\d\d)/\d{4} ",
        r"(?:[A-Z][a-z]{2} )?(?P<name>[A-Z][a-z]{2}) (?P<day>[ \d]\d) ",
    )
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
KINDS = ("timeout", "state", "rendezvous", "ready", ITERATION)
"""Kinds of moments, the most exact first."""
_YEAR = 2000
"""Of times that are printed without one: only differences of times are used."""


class Moment(NamedTuple):
    """Who passed a moment, and when by the clock of the node; equal numbers are one moment."""

    kind: str
    number: int
    node: str
    at_s: float


def seconds(text: str) -> float | None:
    """A printed time as seconds within its year; None if it is none (as times since boot).

    >>> seconds("0102 00:00:01.5") == seconds("2026-01-02 00:00:01,500")
    True
    >>> seconds("Fri Jan  2 00:00:01 2026") == seconds("01/02/2026 00:00:01")
    True
    """
    match = next((match for form in _FORMS if (match := form.match(text))), None)
    if match is None:
        return None
    found = match.groupdict()
    try:
        month = int(found["month"]) if found.get("month") else _MONTHS.index(found["name"]) + 1
        day, hour, minute, second = (
            int(found[name]) for name in ("day", "hour", "minute", "second")
        )
        whole = datetime(_YEAR, month, day, hour, minute, second)
    except ValueError:
        return None
    return whole.replace(tzinfo=UTC).timestamp() + float(f"0.{found['part'] or 0}")


def since_1970_ns(text: str) -> int | None:
    """A printed time with a year, in UTC [ns]; None if it is none.

    >>> since_1970_ns("2026-01-01 00:00:00.5")
    1767225600500000000
    >>> since_1970_ns("1230 10:00:00.5")  # the 30th of December, as glog prints it
    """
    at_s, year = seconds(text), re.match(r"\d{4}(?=[-/.T])", text)
    if at_s is None or year is None:
        return None
    whole = datetime.fromtimestamp(int(at_s), UTC).replace(year=int(year[0]))
    return int(whole.timestamp()) * 10**9 + round(at_s % 1 * 1e9)


def offsets(moments: Iterable[Moment]) -> dict[str, float]:
    """Offset of each node's clock in seconds, as far as the moments show it."""
    times: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for kind, number, node, at_s in moments:
        times[kind, number][node].append(at_s)
    shifts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (kind, _), nodes in times.items():
        medians = {node: median(each) for node, each in nodes.items()}
        common = median(medians.values())
        for node, at_s in medians.items():
            shifts[kind][node].append(at_s - common)
    best = max(KINDS, key=lambda kind: len(shifts[kind]))
    return {node: median(each) for node, each in shifts[best].items()}

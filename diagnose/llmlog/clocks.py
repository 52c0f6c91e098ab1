"""Times of lines on one clock: offsets of nodes from lines that several print at one moment.

Ranks that wait in the same collective time out within milliseconds of each other, and agents end
their ranks at once. So the median time of a node's lines of such a kind, minus the median over
nodes, is the offset of its clock. A node without such lines keeps its own clock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from statistics import median
from typing import Protocol

_AT_ONE_MOMENT = ("timeout", "state")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?")
_DAY = re.compile(r"(\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
_YEAR = 2000
"""Of times that are printed without one: only differences of times are used."""


class Timed(Protocol):
    """An event with the time that its line shows."""

    kind: str
    time: str

    @property
    def node(self) -> str | None: ...


def seconds(text: str) -> float | None:
    """A printed time as seconds within its year; None if it is none (as times since boot).

    >>> seconds("0102 00:00:01.5") == seconds("2026-01-02 00:00:01,500")
    True
    """
    if match := _ISO.match(text):
        groups = match.groups()[1:]
    elif match := _DAY.match(text):
        groups = match.groups()
    else:
        return None
    month, day, hour, minute, second, part = groups
    try:
        whole = datetime(_YEAR, int(month), int(day), int(hour), int(minute), int(second))
    except ValueError:
        return None
    return whole.replace(tzinfo=UTC).timestamp() + float(f"0.{part or 0}")


def offsets(events: Iterable[Timed]) -> dict[str, float]:
    """Offset of each node's clock in seconds, as far as the lines show it."""
    moments: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        at = seconds(event.time) if event.kind in _AT_ONE_MOMENT else None
        if at is not None and event.node is not None:
            moments[event.kind][event.node].append(at)
    for kind in _AT_ONE_MOMENT:
        nodes = {node: median(times) for node, times in moments[kind].items()}
        if len(nodes) > 1:
            common = median(nodes.values())
            return {node: at - common for node, at in nodes.items()}
    return {}

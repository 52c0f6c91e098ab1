"""From readings to the bytes that a port moved: what only looks like traffic is set aside.

Every fault of an exporter is recognised by what a counter can do, counted, and never taken for
traffic:

- *Order.* Readings out of order are sorted; the same reading twice counts once; two values of
  one port at one time contradict each other, and both are set aside.
- *Wraps.* A counter that falls from near 2^32 or 2^64 has wrapped, if what it then moved fits its
  link. Any other fall is a *reset*: the bytes between the two readings are unknown. A port whose
  link can wrap the counter twice between readings is set aside.
- *Holes.* Without readings for several intervals, the bytes are known and their times are not.
- *Impossible rates.* More than the link can carry is no traffic.
- *Refreshes.* Many switches renew their counters seldomer than they are read. A value that repeats
  within one refresh says nothing, and is not taken for silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.counters.readings import EVENTS, IN, OUT, Form, PortReadings
from llmprism.numerics.arrays import Bools, Floats, Ints

WORD = 2**32
"""Where the counters of old MIBs wrap."""
NEAR_WRAP = 0.25
"""Of a word: a counter that falls from above all but this part of it may have wrapped."""
HOLE_INTERVALS = 6.0
"""Intervals without a reading that make a hole; exporters skip two or three under load."""
FASTEST_BPS = 1.7e12
"""More than any port carries: the limit where the topology has no rate."""
OVER_LINK = 1.5
"""Times its rate that a link seems to carry over one interval, when readings are late."""
REPEATED = 1.5
"""Refreshes between two changes that are one after the other, when readings are late."""
UNKNOWN_REFRESH = 0
UNSURE_WRAPS = "wraps at 32 bits of a port that can wrap more than once between readings"


@dataclass(frozen=True)
class PortSeries:
    """The bytes that one port moved.

    Attributes
    ----------
    port : its name.
    time_ns : times when the counters are known, increasing, shape (n,).
    moved : bytes in and out since the first reading, by column, shape (n,), never falling.
    blank : whether the distribution in time up to here is unknown (a hole or reset), shape (n,).
    events : number of other things counted over the whole series, by column; absent if not there.
    """

    port: str
    time_ns: Ints
    moved: Mapping[str, Ints]
    blank: Bools
    events: Mapping[str, int]


def summed(ports: Sequence[PortSeries]) -> PortSeries:
    """What several ports of one NIC moved together, at the times of the first one.

    The others are known between their own times in proportion to the time. Times at which one of
    them is not read are left out.
    """
    first, *others = ports
    if not others:
        return first
    time_ns = first.time_ns
    inside = np.ones(time_ns.size, np.bool_)
    for port in others:
        inside &= (time_ns >= port.time_ns[0]) & (time_ns <= port.time_ns[-1])
    time_ns, blank = time_ns[inside], first.blank[inside].copy()
    moved = {name: own[inside].copy() for name, own in first.moved.items()}
    events = Counter(first.events)
    for port in others:
        events.update(port.events)
        blank |= port.blank[np.searchsorted(port.time_ns, time_ns)]
        for name, own in moved.items():
            own += np.interp(time_ns, port.time_ns, port.moved[name]).astype(np.int64)
    return PortSeries(first.port, time_ns, moved, blank, dict(events))


def cleaned(
    port: PortReadings, form: Form, limit_bps: float, counts: Counter[str]
) -> PortSeries | None:
    """The series of one port; None with fewer than two usable readings.

    ``counts`` gets the number of readings of each fault.
    """
    order, usable = _in_order(port, counts)
    time_ns = port.time_ns[order][usable]
    if time_ns.size < 2:
        counts["ports with fewer than two readings"] += 1
        return None
    values = {name: column[order][usable] for name, column in port.values.items()}
    gap_ns = np.diff(time_ns)
    blank = np.concatenate([[True], gap_ns > HOLE_INTERVALS * np.median(gap_ns)])
    counts["holes"] += int(blank[1:].sum())
    moved = {}
    for name in (IN, OUT):
        steps, unknown = _increments(values[name], form, gap_ns, limit_bps, counts)
        blank[1:] |= unknown
        moved[name] = np.concatenate([[0], np.cumsum(steps)])
    events = {name: _occurrences(values[name], form) for name in EVENTS if name in values}
    return PortSeries(port.port, time_ns, moved, blank, events)


def _in_order(port: PortReadings, counts: Counter[str]) -> tuple[Ints, Bools]:
    """The order of the readings in time, and which of them are used."""
    time_ns = port.time_ns
    back = np.flatnonzero(np.diff(time_ns) < 0)
    counts["readings out of order"] += back.size
    order = np.argsort(time_ns, kind="stable")
    columns = np.stack([port.values[IN][order], port.values[OUT][order]])
    same_time = np.diff(time_ns[order]) == 0
    same = same_time & (np.diff(columns) == 0).all(axis=0)
    contrary = same_time & ~same
    usable = np.ones(time_ns.size, bool)
    usable[1:] &= ~same
    usable[1:] &= ~contrary
    usable[:-1] &= ~contrary
    counts["readings that repeat another"] += int(same.sum())
    counts["readings that contradict another of the same time"] += int(2 * contrary.sum())
    return order.astype(np.int64), usable


def _increments(
    values: Ints, form: Form, gap_ns: Ints, limit_bps: float, counts: Counter[str]
) -> tuple[Ints, Bools]:
    """Bytes between readings, shape (readings - 1,), and where they are unknown."""
    room: Floats = limit_bps / 8e9 * gap_ns.astype(np.float64)
    if form == "differences":
        steps = values[1:].copy()
        unknown = steps < 0
        counts["differences below zero"] += int(unknown.sum())
    else:
        steps, unknown = _unwrapped(values, room, counts)
    # A refresh may deliver what several intervals moved, so the limit holds over a few of them.
    over = (steps > OVER_LINK * HOLE_INTERVALS * room) & ~unknown
    counts["differences that no link carries"] += int(over.sum())
    steps[unknown | over] = 0
    return steps, unknown | over


def _unwrapped(values: Ints, room: Floats, counts: Counter[str]) -> tuple[Ints, Bools]:
    """Increments of a counter with its wraps undone, and where they are unknown.

    Values from 2^63 on are stored as negative ones, so a wrap at 2^64 leaves the difference right.
    """
    steps = np.diff(values)
    counts["wraps at 64 bits"] += int(((values[:-1] < 0) & (values[1:] >= 0)).sum())
    falls = steps < 0
    high = (values[:-1] >= (1 - NEAR_WRAP) * WORD) & (values[:-1] < WORD)
    wraps = falls & high & (values[1:] >= 0) & (values.max() < WORD)
    unsure = wraps & (room > WORD)
    sure = wraps & ~unsure & (steps + WORD <= OVER_LINK * room)
    steps[sure] += WORD
    counts["wraps at 32 bits"] += int(sure.sum())
    counts[UNSURE_WRAPS] += int(unsure.sum())
    counts["resets"] += int((falls & ~sure & ~unsure).sum())
    unknown = falls & ~sure
    return steps, np.full(steps.size, True) if unsure.any() else unknown


def _occurrences(values: Ints, form: Form) -> int:
    """How often something was counted over the whole series; a reset loses what was before it."""
    steps = values[1:] if form == "differences" else np.diff(values)
    return int(steps[steps > 0].sum())


def refresh_ns(series: list[PortSeries]) -> int:
    """The time between two new values of a busy port: the resolution of these counters.

    :data:`UNKNOWN_REFRESH` without ports that change.
    """
    gaps = [_change_gap_ns(port) for port in series]
    known = [gap for gap in gaps if gap > 0]
    return int(np.median(known)) if known else UNKNOWN_REFRESH


def _change_gap_ns(port: PortSeries) -> float:
    """The usual time between changes that follow each other; 0 for a port that hardly changes."""
    changes = np.flatnonzero(np.diff(port.moved[IN]) + np.diff(port.moved[OUT]) > 0) + 1
    if changes.size < 3:
        return 0.0
    gap_ns = np.diff(port.time_ns[changes]).astype(np.float64)
    interval_ns = float(np.median(np.diff(port.time_ns)))
    near = gap_ns[gap_ns <= HOLE_INTERVALS * interval_ns]
    return float(np.median(near)) if near.size > changes.size / 4 else 0.0


def informative(port: PortSeries, resolution_ns: int) -> Bools:
    """Readings that say something: not those that repeat a value within one refresh.

    Where the counter changes, waits for at most a refresh and changes again, the value between is
    only old. Where it waits longer, there was silence, up to one refresh before the next change.
    """
    size = port.time_ns.size
    moves = np.diff(port.moved[IN]) + np.diff(port.moved[OUT]) > 0
    changed = np.concatenate([[True], moves]) | port.blank
    changed[-1] = True
    places = np.flatnonzero(changed)
    following = places[np.minimum(np.searchsorted(places, np.arange(size)), places.size - 1)]
    wait_ns = port.time_ns[following] - port.time_ns
    return np.asarray(changed | (wait_ns >= REPEATED * resolution_ns), bool)


def totals(port: PortSeries) -> Floats:
    """Bytes in and out over the whole series, shape (2,)."""
    return np.array([port.moved[IN][-1], port.moved[OUT][-1]], np.float64)

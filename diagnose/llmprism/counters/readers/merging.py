"""Columns that come apart become readings: both directions of a port at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from llmprism.counters.readings import COLUMNS, IN, OUT, PortReadings
from llmprism.numerics.arrays import Ints

Column = tuple[str, str, Ints, Ints]
"""Port, column, times [ns] and values."""


def merged(columns: Iterable[Column], counts: Counter[str]) -> list[PortReadings]:
    """The readings of each port with both directions, at the times of all of its columns.

    A column without a value at one of these times keeps the one before it: the exporter sends
    only what changed. ``counts`` gets the ports with one direction only.
    """
    ports: dict[str, dict[str, list[tuple[Ints, Ints]]]] = {}
    for port, column, time_ns, values in columns:
        ports.setdefault(port, {}).setdefault(column, []).append((time_ns, values))
    found = []
    for port, pieces in ports.items():
        if IN not in pieces or OUT not in pieces:
            counts["ports with one direction only"] += 1
            continue
        found.append(_of_port(port, pieces))
    return found


def _of_port(port: str, pieces: dict[str, list[tuple[Ints, Ints]]]) -> PortReadings:
    series = {
        name: tuple(np.concatenate(parts) for parts in zip(*pieces[name], strict=True))
        for name in COLUMNS
        if name in pieces
    }
    first = max(int(times.min()) for times, _ in series.values() if times.size)
    times = np.unique(np.concatenate([own for own, _ in series.values()]))
    times = times[times >= first]
    values = {name: _held(times, *columns) for name, columns in series.items()}
    return PortReadings(port, times, values)


def _held(times: Ints, known: Ints, values: Ints) -> Ints:
    """The last value known at each time."""
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known[order], times, side="right") - 1
    return values[order][np.maximum(place, 0)]

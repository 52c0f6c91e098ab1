"""The rates of all ports on one axis of time.

The total of a port is known at its readings and taken as even between them. Its differences over
equal bins are what the port moved in each bin. Ports are read at different times, and their
switches refresh at different times, so what
two ports have in common shows over several refreshes, and a bin is a quarter of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmprism.counters.cleaning import PortSeries, informative
from llmprism.counters.readings import IN, OUT
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

Rates = NDArray[np.float32]
MOST_BINS = 60_000
"""Bins of a recording; a longer one is looked at with longer bins."""
SHARED_HOLE = 0.5
"""Of the ports: a time that more of them do not show is no part of the recording."""


@dataclass(frozen=True)
class Curves:
    """What each port moved in each bin.

    Attributes
    ----------
    ports : names, shape (ports,).
    start_ns, bin_ns : begin of the first bin, and the length of all [ns].
    moved : bytes in and out, shape (ports, 2, bins); those of a hole are spread over it evenly.
    known : whether the bytes of a bin are known, and not only those of a hole, shape (ports, bins).
    resolution_ns : time between two new values of a counter.
    pace : of each port's readings: a complex number whose angle is when in an interval it is read,
        and whose length is 1 for an even pace and near 0 for an uneven one, shape (ports,).
    """

    ports: Sequence[str]
    start_ns: int
    bin_ns: int
    moved: Rates
    known: Bools
    resolution_ns: int
    pace: NDArray[np.complex128]

    @property
    def bins(self) -> int:
        """Number of bins."""
        return int(self.moved.shape[2])

    @property
    def span_ns(self) -> int:
        """Length of the recording."""
        return self.bins * self.bin_ns

    def exchanged(self, rows: Codes | Ints) -> Floats:
        """What ports exchange with others of their job, shape (rows, bins).

        Training sends as much as it receives. What goes only one way, such as data that is read
        from storage, is in the direction with more bytes, so this is the other one.
        """
        sums = self.moved[rows].sum(axis=2, dtype=np.float64)
        quieter: Floats = self.moved[rows, sums.argmin(axis=1)].astype(np.float64)
        return quieter


def curves_of(series: Sequence[PortSeries], resolution_ns: int) -> Curves:
    """The curves of all ports over the time that most of them show.

    The shared holes at both ends are left out; a hole within stays, as bins of unknown bytes.
    """
    first = int(np.median([port.time_ns[0] for port in series]))
    last = int(np.median([port.time_ns[-1] for port in series]))
    bin_ns = max(resolution_ns // 4, -(-(last - first) // MOST_BINS), 1)
    bins = max(1, (last - first) // bin_ns)
    edges = first + bin_ns * np.arange(bins + 1, dtype=np.int64)
    moved = np.zeros((len(series), 2, bins), np.float32)
    known = np.zeros((len(series), bins), np.bool_)
    for row, port in enumerate(series):
        moved[row], known[row] = _binned(port, edges, resolution_ns)
    shared = known.mean(axis=0) > SHARED_HOLE
    kept = slice(*_ends(shared))
    return Curves(
        [port.port for port in series], int(edges[kept.start]), bin_ns,
        np.ascontiguousarray(moved[:, :, kept]), known[:, kept], resolution_ns,
        np.array([_pace(port) for port in series]),
    )  # fmt: skip


def _pace(port: PortSeries) -> complex:
    """When in an interval a port is read, and how even its pace is."""
    gap_ns = np.diff(port.time_ns)
    even = gap_ns[~port.blank[1:]]
    interval_ns = float(even.mean()) if even.size else float(gap_ns.mean())
    turns = (port.time_ns - port.time_ns[0]) / interval_ns
    first = (int(port.time_ns[0]) % int(max(interval_ns, 1))) / interval_ns
    return complex(np.exp(2j * np.pi * (turns + first)).mean())


def _ends(shared: Bools) -> tuple[int, int]:
    places = np.flatnonzero(shared)
    return (int(places[0]), int(places[-1]) + 1) if places.size else (0, shared.size)


def _binned(port: PortSeries, edges: Ints, resolution_ns: int) -> tuple[Floats, Bools]:
    """Bytes of each bin, shape (2, bins), and which of them are known."""
    keep = informative(port, resolution_ns)
    time_ns = port.time_ns[keep]
    sums = [np.interp(edges, time_ns, port.moved[name][keep]) for name in (IN, OUT)]
    bounds = np.flatnonzero(port.blank[1:]) + 1
    known = (edges[:-1] >= port.time_ns[0]) & (edges[1:] <= port.time_ns[-1])
    for place in bounds:
        before, after = port.time_ns[place - 1], port.time_ns[place]
        low, high = np.searchsorted(edges, (before, after))
        known[max(low - 1, 0) : high] = False
    return np.diff(np.stack(sums), axis=1), known

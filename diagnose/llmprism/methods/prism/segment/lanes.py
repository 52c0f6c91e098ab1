"""Lanes: what one endpoint sends to another, as a curve of bytes over time.

A lane has the records of one class on one directed pair, in order of start. Segmentation asks for
its silences, and for its bytes between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.parameters import IDLE_QUANTILE, LEAST_SILENCE_NS
from llmprism.numerics.arrays import Floats, Ints


@dataclass(frozen=True)
class Lane:
    """The records of one class on one directed pair, in order of start; shape (records,).

    Attributes
    ----------
    of_class : index of the class.
    couple : number of the couple of addresses in this class.
    forth : whether it leads from the lower address to the higher.
    rows : its records in the traffic of its class.
    start, end : first and last packet, after the first record of all [ns].
    size : [bytes].
    floor : shortest silence that means anything [ns].
    """

    of_class: int
    couple: int
    forth: bool
    rows: Ints
    start: Floats
    end: Floats
    size: Floats
    floor: float

    @cached_property
    def sent(self) -> Floats:
        """Bytes before each record, and after all of them, shape (records + 1,)."""
        return np.concatenate(([0.0], np.cumsum(self.size)))

    @cached_property
    def reached(self) -> Floats:
        """Latest end so far [ns], shape (records,)."""
        reached: Floats = np.maximum.accumulate(self.end)
        return reached

    @cached_property
    def gaps(self) -> Floats:
        """Silence before each record but the first [ns]; negative if they overlap."""
        return self.start[1:] - self.reached[:-1]

    @cached_property
    def silent(self) -> Ints:
        """Records that follow a silence that means something."""
        return np.flatnonzero(self.gaps >= self.floor) + 1

    def before(self, moments: Floats) -> Floats:
        """Bytes of the records that start before each of the ``moments``, shape (moments,)."""
        return self.sent[np.searchsorted(self.start, moments)]

    def silence(self, cuts: Ints, extent: tuple[float, float]) -> tuple[Floats, Floats]:
        """Begin and end of the silence before each of the records ``cuts`` [ns].

        The one before the first record begins with the ``extent`` of a recording, and the one
        after the last record, whose number is that of all records, ends with it.
        """
        low = np.concatenate(([extent[0]], self.reached))[cuts]
        high = np.append(self.start, extent[1])[cuts]
        return low, high

    @property
    def sending_ns(self) -> float:
        """Time in which it sends [ns]."""
        return float(self.reached[-1] - self.start[0] - self.gaps[self.gaps > 0].sum())

    @property
    def bytes(self) -> float:
        """Total [bytes]."""
        return float(self.sent[-1])

    @cached_property
    def typical(self) -> float:
        """Byte-weighted mean record [bytes]."""
        return float((self.size**2).sum() / max(self.bytes, 1.0))


def extent_of(lanes: Sequence[Lane]) -> tuple[float, float]:
    """First and last packet of ``lanes`` [ns]."""
    return min(float(lane.start[0]) for lane in lanes), max(
        float(lane.reached[-1]) for lane in lanes
    )


def lanes_of(classes: Sequence[TrafficClass]) -> list[Lane]:
    """The lanes of all ``classes``."""
    origin = min(int(one.traffic.start_ns[0]) for one in classes)
    cut = [(number, *part) for number, one in enumerate(classes) for part in _parted(one)]
    floor = _floor_ns(classes, [(number, rows) for number, _, _, rows in cut])
    lanes = []
    for number, couple, forth, rows in cut:
        traffic = classes[number].traffic
        start = (traffic.start_ns[rows] - origin).astype(np.float64)
        end = (traffic.end_ns[rows] - origin).astype(np.float64)
        size = traffic.size[rows].astype(np.float64)
        lanes.append(Lane(number, couple, forth, rows, start, end, size, floor))
    return lanes


def _parted(one: TrafficClass) -> list[tuple[int, bool, Ints]]:
    """Couple, direction and records of each lane of a class."""
    key = 2 * one.traffic.couple.astype(np.int64) + one.traffic.forth
    order = np.argsort(key, kind="stable")
    firsts = np.flatnonzero(np.diff(key[order], prepend=-1))
    parts = np.split(order, firsts[1:])
    return [(int(key[rows[0]]) // 2, bool(key[rows[0]] % 2), rows) for rows in parts]


def _floor_ns(classes: Sequence[TrafficClass], cut: Sequence[tuple[int, Ints]]) -> float:
    """Shortest silence that means anything [ns]: by the clock, and by how an exporter cuts."""
    rests = np.concatenate(
        [
            classes[number].traffic.start_ns[rows][1:] - classes[number].traffic.end_ns[rows][:-1]
            for number, rows in cut
        ]
    )
    rests = rests[rests > 0]
    idle_ns = float(np.quantile(rests, IDLE_QUANTILE)) if rests.size else 0.0
    moments = [each for one in classes for each in (one.traffic.start_ns, one.traffic.end_ns)]
    tick_ns = clock_tick_ns(np.concatenate(moments))
    return max(2.0 * tick_ns, LEAST_SILENCE_NS, idle_ns / 2)

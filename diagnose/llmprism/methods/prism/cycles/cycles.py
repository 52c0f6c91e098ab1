"""The step as a cycle: traffic of one class on one line, and the ways to cut it into equal parts.

In every training step a connection moves the same bytes. So the boundaries between steps are
those silences that cut the traffic of a class of connections into parts of equal volume.

A *class* is a set of connections that carry the same volume in records of the same size (all
hops of the data-parallel rings of a stage, say). Traffic of the members is laid on one line;
a *gap* is a time in which none of them moves anything.

A *division* is one way to cut: its parts, how regular they are (the share of parts, and of
bytes, within a tolerance of the median part), and how clear (the shortest gap that cuts over
the longest that does not).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.methods.prism.cycles.parts import regularity, with_extras
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

EXTRAS_FROM = 6  # parts from which most of them show what a step moves


@dataclass(frozen=True)
class Traffic:
    """Records of one class on one line, sorted by start; equal length arrays.

    Attributes
    ----------
    row : row in the flow table.
    start_ns, end_ns : [ns].
    size : bytes.
    couple : number of the unordered pair of addresses, from 0.
    forth : whether the record goes from the pair's lower address to the higher.
    """

    row: Codes
    start_ns: Ints
    end_ns: Ints
    size: Ints
    couple: Codes
    forth: Bools

    def __len__(self) -> int:
        return int(self.row.size)

    def rests_ns(self) -> Ints:
        """From the last end before each record but the first to its start [ns]; may be < 0."""
        gap: Ints = self.start_ns[1:] - np.maximum.accumulate(self.end_ns)[:-1]
        return gap


@dataclass(frozen=True)
class Division:
    """One way to cut the traffic of a class into parts.

    Attributes
    ----------
    cuts : index of the first record of each part but the first.
    volumes : bytes of each part.
    tolerance : the smallest of TOLERANCES at which it is regular; inf if at none.
    regular_parts, regular_bytes : shares within that tolerance of the median.
    clarity : shortest gap that cuts over longest that does not.
    two_sided : share of parts in which both directions of two-way couples move about as much.
    evaluated : whether some parts hold an evaluation besides a step.
    """

    cuts: Ints
    volumes: Floats
    tolerance: float
    regular_parts: float
    regular_bytes: float
    clarity: float
    two_sided: float = 1.0
    evaluated: bool = False

    def __len__(self) -> int:
        return int(self.cuts.size) + 1

    @property
    def firsts(self) -> Ints:
        """Index of the first record of each part."""
        return np.concatenate(([0], self.cuts))

    def part_of(self, records: int) -> Codes:
        """Part of each of the traffic's ``records``."""
        begins = np.zeros(records, np.int8)
        begins[self.cuts] = 1
        return np.cumsum(begins, dtype=np.int32)

    def usual_ns(self, traffic: Traffic) -> float:
        """Median time from the begin of a part of the ``traffic`` to that of the next one."""
        return float(np.median(np.diff(traffic.start_ns[self.firsts])))

    @cached_property
    def weight(self) -> float:
        """How much the division counts in a vote: quality, and less if its cuts are unclear."""
        return self.quality**3 * (1.0 - 0.5 / max(self.clarity, 1.0))

    @cached_property
    def quality(self) -> float:
        """How well equal parts explain the traffic, in [0, 1]."""
        if not np.isfinite(self.tolerance):
            return 0.0
        return self.regular_parts * self.regular_bytes * (1.0 - self.tolerance) * self.two_sided


def divided(cuts: Ints, before: Floats, clarity: float) -> Division:
    """The division at ``cuts``, which are the indices of first records of parts.

    ``before`` are bytes, or records, before each record, and all of them at the end.
    """
    edges = np.concatenate(([0], cuts, [before.size - 1]))
    volumes = np.diff(before[edges])
    found = regularity(volumes)
    if not np.isfinite(found[0]) and volumes.size >= EXTRAS_FROM:
        found = with_extras(volumes, np.diff(edges).astype(np.float64))
    return Division(cuts, volumes, *found, clarity)

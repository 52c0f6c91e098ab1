"""What the classes of a component propose: divisions of their traffic into parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.parameters import EQUAL
from llmprism.numerics.arrays import INTS, Ints

GOOD = 0.5  # quality of a division that is believed


@dataclass(frozen=True)
class Proposals:
    """Divisions that the classes of a component propose.

    Two numbers of parts are compared: ``fine`` parts, of which ``coarse`` ones hold several.

    Attributes
    ----------
    classes : the classes.
    divisions : those of each class.
    """

    classes: Sequence[TrafficClass]
    divisions: Sequence[Sequence[Division]]

    def each(self) -> Iterator[tuple[TrafficClass, Sequence[Division]]]:
        """Every class with its divisions."""
        return zip(self.classes, self.divisions, strict=True)

    def both(
        self, fine: int, coarse: int
    ) -> list[tuple[TrafficClass, Division | None, Division | None]]:
        """Every class with its fine and its coarse division, None where it has none."""
        return [(one, of_count(own, fine), of_count(own, coarse)) for one, own in self.each()]

    def showing(self, fine: int, coarse: int) -> list[tuple[Traffic, Division, Division]]:
        """The traffic and both divisions of all classes that have both."""
        every = self.both(fine, coarse)
        return [(one.traffic, finer, coarser) for one, finer, coarser in every if finer and coarser]

    def clearest(self, count: int) -> tuple[int, Ints, Ints]:
        """The class that is divided most clearly into so many parts, if any; their extents [ns]."""
        found = [of_count(own, count) for own in self.divisions]
        lead = max(range(len(found)), key=lambda i: standing(found[i]))
        best = found[lead]
        return lead, *((INTS, INTS) if best is None else extent(self.classes[lead].traffic, best))


def of_count(own: Sequence[Division], count: int) -> Division | None:
    """The best of a class's ``own`` divisions into so many parts, if there is one."""
    alike = [d for d in own if len(d) == count]
    return max(alike, key=lambda d: (d.weight, d.clarity)) if alike else None


def standing(division: Division | None) -> tuple[float, float]:
    """What a division is compared by with those of other classes: quality first, then clarity."""
    return (-1.0, 0.0) if division is None else (round(division.quality, 1), division.clarity)


def extent(traffic: Traffic, division: Division) -> tuple[Ints, Ints]:
    """First start and last end of each part [ns]."""
    firsts = division.firsts
    return traffic.start_ns[firsts], np.maximum.reduceat(traffic.end_ns, firsts)


def records_of_part(one: TrafficClass, count: int) -> float:
    """Records of a connection in each of so many parts, on average."""
    return len(one.traffic) / (count * one.connections.size)


def parts_held(proposals: Proposals, fine: int, coarse: int) -> int:
    """How many fine parts each coarse one holds; 0 if that is no number, or not the same for all.

    Counts need not be multiples: where records begin or end within a step, its parts are fewer. So
    the bytes of the usual parts tell, in all classes that show both.
    """
    if fine % coarse == 0:
        return fine // coarse
    ratios = [
        float(np.median(coarser.volumes) / np.median(finer.volumes))
        for own in proposals.divisions
        if (finer := of_count(own, fine)) and (coarser := of_count(own, coarse))
    ]
    held = {round(ratio) * (abs(ratio - round(ratio)) <= EQUAL * ratio) for ratio in ratios}
    return held.pop() if len(held) == 1 else 0

"""What the classes of a component propose: divisions of their traffic into parts.

Classes are looked at together. ``proposed`` has the divisions of every class, and two numbers of
parts are compared: ``fine`` parts, of which ``coarse`` ones hold several.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.numerics.arrays import Ints
from llmprism.numerics.early import INTS

GOOD = 0.5  # quality of a division that is believed


def of_count(own: list[Division], count: int) -> Division | None:
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


def extent_of_clearest(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], count: int
) -> tuple[int, Ints, Ints]:
    """The class that is divided most clearly into so many parts, if any; their extents [ns]."""
    found = [of_count(own, count) for own in proposed]
    lead = max(range(len(found)), key=lambda i: standing(found[i]))
    best = found[lead]
    return lead, *((INTS, INTS) if best is None else extent(classes[lead].traffic, best))


def records_of_part(one: TrafficClass, count: int) -> float:
    """Records of a connection in each of so many parts, on average."""
    return len(one.traffic) / (count * one.connections.size)


def are_halves(proposed: list[list[Division]], fine: int, coarse: int) -> bool:
    """Whether each coarse part holds two fine ones, in all classes that show both.

    The first and the last one may hold one: records begin and end within a step, and parameters
    that are gathered in the next step are missing in the last one.
    """
    shown = [
        (finer, coarser)
        for own in proposed
        if (finer := of_count(own, fine)) and (coarser := of_count(own, coarse))
    ]
    return fine == 2 * coarse or (bool(shown) and all(_in_pairs(*both) for both in shown))


def _in_pairs(fine: Division, coarse: Division) -> bool:
    """Whether all coarse parts but the first and the last hold two fine ones, and those no more."""
    if not np.isin(coarse.cuts, fine.cuts).all():
        return False
    borders = np.searchsorted(fine.cuts, coarse.cuts) + 1
    held = np.diff(np.concatenate(([0], borders, [len(fine)])))
    return bool(held.size > 2 and (held[1:-1] == 2).all() and held.max() == 2)

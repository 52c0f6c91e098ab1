"""Divisions with a few cuts too many or too few, repaired by the volumes of their parts.

A slow rank makes silences inside a step, so that one step looks like several parts. A slow link
stretches the traffic of a step until the next one begins, so that several steps look like one part.
Most parts are whole steps all the same, and show how many bytes a step moves.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, divided
from llmprism.methods.prism.cycles.parts import TOLERANCES, holds_several, whole_parts
from llmprism.methods.prism.parameters import MOSTLY
from llmprism.numerics.arrays import Bools, Floats, Ints, quantile_by_weight

REPAIR = 0.03  # how far from the median joined parts may be, as a share of it
LOSSY = {0.1, 0.25}  # ... where parts differ by as much, since records were lost
IN_TWO = 2 + REPAIR  # times the median part: a whole one, where most are split in two
PAUSE = 2.0  # times the usual silence between steps: one that a stopped rank makes inside a step
EXACT = 0.98  # quality of parts that need no other explanation


def repaired(
    division: Division, before: Floats, gap: Ints | None = None, away: float = REPAIR
) -> Division:
    """The division without the cuts that split a part: neighbours that add up to a whole part.

    Sums may be ``away`` from that, as a share of it. A whole part is as large as the median one.
    Where most parts may be split in two, it is as large as the part in which the median byte moves,
    if that makes equal parts.

    A slow rank makes a silence inside a step longer than those between healthy steps. Where it is
    by far the longest ``gap`` of those that cut, a rank was stopped, and the other cuts stay clear.
    """
    volumes = division.volumes
    usual, larger = float(np.median(volumes)), quantile_by_weight(volumes, volumes, 0.5)
    best = _joined(division, before, gap, whole_parts(volumes, usual, away)[:-1])
    if usual < larger <= IN_TWO * usual:
        other = _joined(division, before, gap, whole_parts(volumes, larger, away)[:-1])
        best = other if other.quality > max(best.quality, EXACT) else best
    return best


def _joined(division: Division, before: Floats, gap: Ints | None, keep: Bools) -> Division:
    """The division with the cuts to ``keep`` only, if there are any."""
    cuts = division.cuts[keep]
    if not cuts.size:
        return division
    stopped = gap is not None and bool((gap[~keep] > PAUSE * np.median(gap[keep])).all())
    return divided(cuts, before, division.clarity if stopped else 1.0)


def split(division: Division, before: Floats, gaps: tuple[Ints, Ints]) -> Division | None:
    """The division with parts of several steps cut at equal volumes; None if there are none.

    Where a slow link stretches the traffic of a step until the next one begins, no silence parts
    the two. Most parts must be single steps all the same, and the others whole multiples of one.
    ``gaps`` has the record after each gap, and its length: where records were lost, the steps part
    at the longest gap near by.
    """
    if not holds_several(division.volumes, REPAIR, MOSTLY):
        return None
    steps = np.rint(division.volumes / float(np.median(division.volumes))).astype(np.int64)
    several = steps > 1
    begins = division.firsts[several]
    cuts = steps[several] - 1
    place = np.arange(1, cuts.sum() + 1) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    each = np.repeat(division.volumes[several] / steps[several], cuts)
    extra = np.searchsorted(before, np.repeat(before[begins], cuts) + place * each)
    last = np.repeat(np.append(division.cuts, before.size - 1)[several], cuts) - 1
    extra = np.minimum(extra, last)  # if the last record holds more than its share
    single = division.volumes[~several] / float(np.median(division.volumes))
    if (np.abs(single[1:-1] - 1) > TOLERANCES[0]).any():  # records were lost
        extra = _at_longest(extra, *gaps, before, float(np.median(division.volumes)))
    return divided(_union(division.cuts, extra), before, 1.0)


def _at_longest(cuts: Ints, at: Ints, gap: Ints, before: Floats, usual: float) -> Ints:
    """The ``cuts``, each at the longest gap that lost records may be away from it.

    ``usual`` is what moves in a step [bytes], of which a few records may be missing.
    """
    near, moved = max(LOSSY) / 2 * usual, before[at]
    first = np.searchsorted(moved, before[cuts] - near, side="left")
    last = np.searchsorted(moved, before[cuts] + near, side="right")
    places = [
        at[low + int(np.argmax(gap[low:high]))] if high > low else cut
        for cut, low, high in zip(cuts.tolist(), first.tolist(), last.tolist(), strict=True)
    ]
    return np.unique(np.array(places, np.int64))


def _union(one: Ints, other: Ints) -> Ints:
    """Distinct values of two sorted arrays; several times faster on them than ``np.union1d``."""
    both = np.sort(np.concatenate((one, other)), kind="stable")
    return both[np.diff(both, prepend=-1) > 0]

"""The step as a cycle: where traffic of one class must be cut so that all parts are alike.

In every training step a connection moves the same bytes. So the boundaries between steps are
those silences that cut the traffic of a class of connections into parts of equal volume.
Neither the length of a step nor a threshold on gaps has to be known: every threshold is
tried, and the parts it makes are judged by how equal they are.

A *class* is a set of connections that carry the same volume in records of the same size (all
hops of the data-parallel rings of a stage, say). Traffic of the members is laid on one line;
a *gap* is a time in which none of them moves anything. For connections that come in pairs of
opposite direction with equal volume, a gap counts only if both have moved equally much by
then: between the stages of a pipeline this holds at the end of a step only, since every
activation is answered by a gradient.

A *division* is one way to cut: its parts, how regular they are (the share of parts, and of
bytes, within a tolerance of the median part), and how clear (the shortest gap that cuts over
the longest that does not).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from llmprism.methods.prism.cycles.balance import balanced_at, both_ways
from llmprism.methods.prism.cycles.evaluations import (
    EQUAL,
    Sizes,
    sizes_of,
    steps_and_evaluations,
    with_directions,
)
from llmprism.methods.prism.cycles.forward_first import begin_with_backward, first_forward
from llmprism.methods.prism.cycles.parts import (
    TOLERANCES,
    holds_several,
    regularity,
    share_answered,
    share_two_sided,
    whole_parts,
    with_extras,
)
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, quantile_by_weight

THRESHOLDS = 160
MOST_GAPS = 40_000
_TELLING = 0.15  # share of silence without balance that makes balance a sign of the end
_WHOLE = 0.8  # quality of parts with nothing under way between them
TWO_WAY = 0.8  # the lesser direction of a couple carries at least this share of the greater
_MOSTLY_SINGLE = 0.75  # share of parts that are one step each, where others are several
_EXTRAS_FROM = 6  # parts from which most of them show what a step moves
_REPAIR = 0.03  # how far from the median joined parts may be
_LOSSY = {0.1, 0.25}  # ... where parts differ by as much, since records were lost
_IN_TWO = 2 + _REPAIR  # times the median part: a whole one, where most are split in two
_PAUSE = 2.0  # times the usual silence between steps: one that a stopped rank makes inside a step
_CLEAR, _EQUAL = 3.0, 0.98  # clarity and quality of parts that need no other explanation


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


def divisions(traffic: Traffic, fewest: int = 2) -> list[Division]:
    """Every distinct division of ``traffic`` by a threshold on gaps, coarse to fine."""
    at, gap = _gaps(traffic)
    if at.size == 0:
        return []
    balanced = balanced_at(traffic.couple, traffic.forth, traffic.size, at)
    found = _by_thresholds(traffic, at, gap, fewest)
    if balanced is not None and balanced.sum() >= fewest - 1:
        uneven = float(gap[~balanced].sum() / gap.sum())
        whole = _where_balanced(traffic, at[balanced], gap[balanced], fewest)
        if uneven > _TELLING and whole.quality > _WHOLE:
            return [whole]
    return _two_sided(traffic, found)


def _begun_forward(traffic: Traffic, one: Division) -> Division:
    """``one``, or its steps where the parts begin with backward passes."""
    if not np.isfinite(one.tolerance):
        return one
    couple, forth, part = traffic.couple, traffic.forth, one.part_of(len(traffic))
    if not begin_with_backward(couple, forth, traffic.size, traffic.start_ns, traffic.end_ns, part):
        return one
    return replace(steps_from(traffic, first_forward(couple, forth, part)), clarity=one.clarity)


def _two_sided(traffic: Traffic, found: list[Division]) -> list[Division]:
    """``found``, begun by forward passes, with the share of two-sided parts: of two-way couples.

    A step brings a gradient for every activation. Forward passes alone and backward passes alone
    (GPipe) are parts of equal volume, but each moves one way only. Where one direction moves more
    (evaluations, or few messages of a step that was cut), the other still moves in every step.
    """
    volume = both_ways(traffic.couple, traffic.forth, traffic.size)
    less, more = volume.min(axis=1), volume.max(axis=1)
    if (less == 0).any():
        return found
    found = [_begun_forward(traffic, one) for one in found]
    balanced = bool((less >= TWO_WAY * more).all())
    signed = np.where(traffic.forth, traffic.size, -traffic.size)

    def share(one: Division) -> float:
        if balanced:
            return share_two_sided(traffic.couple, signed, one.cuts, one.volumes)
        return share_answered(traffic.couple, traffic.forth, one.cuts)

    return [
        replace(one, two_sided=share(one)) if np.isfinite(one.tolerance) else one for one in found
    ]


def _where_balanced(traffic: Traffic, at: Ints, gap: Ints, fewest: int) -> Division:
    """The division at balanced gaps, regular in bytes or, where lengths vary, in records.

    A stage that is slower than the next one has the answer to all it sent before it sends again, so
    that nothing is under way within steps, either. Then the longer ones of the balanced gaps cut.
    """
    bytes_before = np.concatenate(([0.0], np.cumsum(traffic.size, dtype=np.float64)))
    both = (bytes_before, np.arange(len(traffic) + 1, dtype=np.float64))
    every = [_repaired(_division(at, before, np.inf), before) for before in both]
    best = max(every, key=lambda division: division.quality)
    if best.quality > _WHOLE:
        return replace(best, clarity=np.inf)
    longer = [own for before in both for own in _by_length(at, gap, before, fewest)]
    equal = [division for division in longer if division.quality >= _EQUAL]
    return max(equal, key=len, default=best)


def _by_length(at: Ints, gap: Ints, before: Floats, fewest: int) -> list[Division]:
    """Divisions at the longest gaps only; ``before`` are bytes, or records, before each record."""
    descending = np.sort(gap)[::-1]
    counts = np.unique(np.geomspace(max(fewest - 1, 1), gap.size, THRESHOLDS).astype(np.int64))
    levels = np.unique(descending[counts[counts <= gap.size] - 1])
    inside = [max(gap[gap < level].max(initial=0), 1) for level in levels]
    return [
        _division(at[gap >= level], before, level / longest)
        for level, longest in zip(levels, inside, strict=True)
    ]


def _gaps(traffic: Traffic) -> tuple[Ints, Ints]:
    """Index of the record after each gap, and the gap's length [ns]; the longest ones only."""
    silence = traffic.rests_ns()
    at = np.flatnonzero(silence > 0) + 1
    gap = silence[at - 1]
    if at.size > MOST_GAPS:
        keep = np.sort(np.argpartition(gap, -MOST_GAPS)[-MOST_GAPS:])
        at, gap = at[keep], gap[keep]
    return at, gap


def _by_thresholds(traffic: Traffic, at: Ints, gap: Ints, fewest: int) -> list[Division]:
    sizes = with_directions(sizes_of(traffic.size), traffic.couple, traffic.forth, traffic.size)
    before = sizes.every
    descending = np.sort(gap)[::-1]
    found: list[Division] = []
    tried: set[int] = set()
    levels = np.geomspace(descending[0], max(descending[-1], descending[0] * 1e-6), THRESHOLDS)
    for level in levels:
        count = int(np.searchsorted(-descending, -level, side="right"))
        if count + 1 < fewest or count in tried:
            continue
        tried.add(count)
        longest_inside = descending[count] if count < descending.size else 0
        cuts = at[gap >= descending[count - 1]]
        division = _division(cuts, before, descending[count - 1] / max(longest_inside, 1))
        found.append(division)
        evaluated = _with_evaluations(division, sizes)
        if evaluated is not None:
            found.append(evaluated)
        split = _split(division, before, (at, gap))
        if split is not None:
            found.append(split)
        for away in sorted({_REPAIR, *(_LOSSY & {division.tolerance})}):
            repaired = _repaired(division, before, gap[gap >= descending[count - 1]], away)
            if len(repaired) < len(division) and repaired.quality > division.quality:
                found.append(repaired)
    return _without_needless(found)


def _without_needless(found: list[Division]) -> list[Division]:
    """``found`` without evaluations, if long silences part the traffic into equal parts.

    Buckets of several sizes may then look like steps of which some hold an evaluation.
    """
    clear = any(
        one.clarity >= _CLEAR and one.quality >= _EQUAL and not one.evaluated for one in found
    )
    return [one for one in found if not (clear and one.evaluated)]


def steps_from(traffic: Traffic, cuts: Ints) -> Division:
    """The division of ``traffic`` into parts that begin with the records ``cuts``."""
    return _division(cuts, sizes_of(traffic.size).every, np.inf)


def _division(cuts: Ints, before: Floats, clarity: float) -> Division:
    edges = np.concatenate(([0], cuts, [before.size - 1]))
    volumes = np.diff(before[edges])
    found = regularity(volumes)
    if not np.isfinite(found[0]) and volumes.size >= _EXTRAS_FROM:
        found = with_extras(volumes, np.diff(edges).astype(np.float64))
    return Division(cuts, volumes, *found, clarity)


def _with_evaluations(division: Division, sizes: Sizes) -> Division | None:
    """The division without cuts before evaluations, if its parts are steps; None if not."""
    cuts = steps_and_evaluations(division.cuts, sizes)
    if cuts is None:
        return None
    volumes = np.diff(sizes.every[np.concatenate(([0], cuts, [sizes.every.size - 1]))])
    return Division(cuts, volumes, EQUAL, 1.0, 1.0, division.clarity, evaluated=True)


def _repaired(
    division: Division, before: Floats, gap: Ints | None = None, away: float = _REPAIR
) -> Division:
    """The division without the cuts that split a part: neighbours that add up to a whole part.

    Sums may be ``away`` from that, as a share of it. Whole is the median part. Where that may be
    one of two, it is the part up to which smaller ones hold half of the bytes, if equal parts
    result.

    A slow rank makes a silence inside a step longer than those between healthy steps. Where it is
    by far the longest ``gap`` of those that cut, a rank was stopped, and the other cuts stay clear.
    """
    volumes = division.volumes
    usual, larger = float(np.median(volumes)), quantile_by_weight(volumes, volumes, 0.5)
    best = _joined(division, before, gap, whole_parts(volumes, usual, away)[:-1])
    if usual < larger <= _IN_TWO * usual:
        other = _joined(division, before, gap, whole_parts(volumes, larger, away)[:-1])
        best = other if other.quality > max(best.quality, _EQUAL) else best
    return best


def _joined(division: Division, before: Floats, gap: Ints | None, keep: Bools) -> Division:
    """The division with the cuts to ``keep`` only, if there are any."""
    cuts = division.cuts[keep]
    if not cuts.size:
        return division
    stopped = gap is not None and bool((gap[~keep] > _PAUSE * np.median(gap[keep])).all())
    return _division(cuts, before, division.clarity if stopped else 1.0)


def _split(division: Division, before: Floats, gaps: tuple[Ints, Ints]) -> Division | None:
    """The division with parts of several steps cut at equal volumes; None if there are none.

    Where a slow link stretches the traffic of a step until the next one begins, no silence parts
    the two. Most parts must be single steps all the same, and the others whole multiples of one.
    ``gaps`` has the record after each gap, and its length: where records were lost, the steps part
    at the longest gap near by.
    """
    if not holds_several(division.volumes, _REPAIR, _MOSTLY_SINGLE):
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
    return _division(_union(division.cuts, extra), before, 1.0)


def _at_longest(cuts: Ints, at: Ints, gap: Ints, before: Floats, usual: float) -> Ints:
    """The ``cuts``, each at the longest gap that lost records may be away from it.

    ``usual`` is what moves in a step [bytes], of which a few records may be missing.
    """
    near, moved = max(_LOSSY) / 2 * usual, before[at]
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

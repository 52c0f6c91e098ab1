"""Every way to cut the traffic of a class into parts by the length of its gaps.

Neither the length of a step nor a threshold on gaps has to be known: every threshold is
tried, and the parts it makes are judged by how equal they are.

For connections that come in pairs of opposite direction with equal volume, a gap counts only if
both have moved equally much by then: between the stages of a pipeline this holds at the end of a
step only, since every activation is answered by a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.cycles.balance import (
    EVEN,
    balanced_at,
    both_ways,
)
from llmprism.methods.prism.cycles.cycles import Division, Traffic, divided
from llmprism.methods.prism.cycles.evaluations import (
    Sizes,
    bytes_before,
    gradients_of,
    sizes_of,
    steps_and_evaluations,
    with_directions,
)
from llmprism.methods.prism.cycles.parts import share_answered
from llmprism.methods.prism.cycles.repairs import LOSSY, REPAIR, repaired, split
from llmprism.methods.prism.parameters import SMALL
from llmprism.numerics.arrays import Bools, Floats, Ints

THRESHOLDS = 160  # on gaps; over six orders of magnitude, each is a twelfth shorter than the last
MOST_GAPS = 40_000  # that are looked at, the longest ones
WHOLE = 0.8  # quality of parts with nothing under way between them
CLEAR, EXACT = 3.0, 0.98  # clarity and quality of parts that need no other explanation
EVALUATES = 1.4  # times the usual activations: more than samples of as many bytes differ
SHORTER = 2  # times: the next shorter part of the traffic that is tried


def divisions(traffic: Traffic, fewest: int = 2, *, passes: bool = False) -> list[Division]:
    """Every distinct division of ``traffic`` by a threshold on gaps, coarse to fine.

    Those of the ``passes`` of a pipeline are where nothing is under way, if any moments are such.
    Recordings may begin with backward passes; then clear silences say where steps begin.
    """
    at, gap = _gaps(traffic)
    if at.size == 0:
        return []
    found = _two_sided(traffic, _by_thresholds(traffic, at, gap, fewest))
    whole = _where_balanced(traffic, (at, gap), fewest) if passes else []
    if not whole or any(_are_shifted(one, whole[0]) for one in found):
        return found
    return [replace(whole[0], clarity=max(whole[0].clarity, CLEAR)), *whole[1:]]


def _are_shifted(one: Division, whole: Division) -> bool:
    """Whether far longer silences make as many parts as moments in which nothing is under way.

    A recording may begin within a step, so the first part holds a step at most. It does not if all
    parts between these moments are whole, and those between silences are not.
    """
    clear = one.quality > WHOLE and one.clarity >= CLEAR * whole.clarity
    most = (1 + one.tolerance) * float(np.median(one.volumes))
    clear &= _ends_whole(one) or not _ends_whole(whole)
    return clear and one.volumes[0] <= most and abs(len(one) - len(whole)) <= 1


def _ends_whole(one: Division) -> bool:
    """Whether the first and the last part hold as much as the others."""
    least = min(one.volumes[0], one.volumes[-1])
    return bool(least >= (1 - max(EVEN, min(one.tolerance, SMALL))) * np.median(one.volumes))


def steps_from(traffic: Traffic, cuts: Ints) -> Division:
    """The division of ``traffic`` into parts that begin with the records ``cuts``."""
    return divided(cuts, bytes_before(traffic.size), np.inf)


def _two_sided(traffic: Traffic, found: list[Division]) -> list[Division]:
    """``found`` with the share of two-sided parts: of two-way couples.

    A step brings gradients for its activations. Forward passes alone and backward passes alone
    (GPipe) are parts of equal volume, but each moves one way only.
    """
    volume = both_ways(traffic.couple, traffic.forth, traffic.size)
    if not volume.all():
        return found
    return [_answered(traffic, one) if np.isfinite(one.tolerance) else one for one in found]


def _answered(traffic: Traffic, one: Division) -> Division:
    share = share_answered(traffic.couple, traffic.forth, one.cuts)
    return replace(one, two_sided=share)


def _where_balanced(traffic: Traffic, gaps: tuple[Ints, Ints], fewest: int) -> list[Division]:
    """Divisions at gaps in which nothing is under way, the finest first; none if they show nothing.

    That counts in bytes or, where records are estimates, in records. Records may be lost, so the
    least that is under way counts for a part of the traffic only, which is at best that of a step.
    ``gaps`` has the record after each gap, and its length [ns].
    """
    best: list[Division] = []
    for moved in (traffic.size, np.ones_like(traffic.size)):
        if _quality(best) >= EXACT:
            break
        most = len(traffic)
        while most >= fewest:
            found = _within(traffic, moved, gaps, fewest, most)
            if found:
                records = len(traffic) // ((int(traffic.couple.max()) + 1) * len(found[0]))
                again = _within(traffic, moved, gaps, fewest, records)
                best = max(best, found, again, key=_quality)
                break
            most //= SHORTER
    return best


def _quality(found: Sequence[Division]) -> float:
    return found[0].quality if found else 0.0


def _within(
    traffic: Traffic, moved: Ints, gaps: tuple[Ints, Ints], fewest: int, most: int
) -> list[Division]:
    """The same, by what is ``moved``, with the least of ``most`` records of a couple.

    Moments that are also clear silences end steps: longer ones are pauses.
    """
    at, gap = gaps
    balanced = balanced_at(traffic.couple, traffic.forth, moved, at, most)
    if balanced is None or not gap[~balanced].sum() > SMALL * gap.sum():
        return []
    found = _at_balanced(traffic, (at[balanced], gap[balanced]), fewest)
    whole = max(found, key=lambda division: division.quality, default=None)
    if whole is None or not whole.quality > WHOLE:
        return []
    cuts = np.isin(at, whole.cuts)
    clarity = float(gap[cuts].min() / max(gap[~cuts].max(initial=0), 1))
    if clarity >= CLEAR:
        return [replace(whole, clarity=clarity)]
    coarser = [one for one in found if one.quality >= EXACT and len(one) < len(whole)]
    return [replace(whole, clarity=clarity), *coarser]


def _at_balanced(traffic: Traffic, gaps: tuple[Ints, Ints], fewest: int) -> list[Division]:
    """Divisions at ``gaps``, regular in bytes or, where lengths vary, in records.

    A stage that is slower than the next one has the answer to all it sent before it sends again, so
    that nothing is under way within steps, either. Then the longer ones of the gaps cut.

    An evaluation brings no gradients: each part moves as many of those, and what moves none belongs
    to the part before.
    """
    found: list[Division] = []
    for moved in (traffic.size, np.ones_like(traffic.size)):
        gradients = gradients_of(traffic.couple, traffic.forth, moved)
        before = bytes_before(moved, True if gradients is None else gradients)
        own = np.diff(before[np.append(gaps[0], len(traffic))]) > 0
        at, gap = gaps[0][own], gaps[1][own]
        if at.size < fewest - 1:
            continue
        division = divided(at, before, np.inf)
        parted = split(division, before, (at, gap))
        every = [repaired(division, before), *_by_length(at, gap, before, fewest)]
        every += [] if parted is None else [parted]
        found += [
            replace(_answered(traffic, one), evaluated=_holds_evaluations(one, moved, gradients))
            for one in every
        ]
    return found


def _holds_evaluations(one: Division, moved: Ints, gradients: Bools | None) -> bool:
    """Whether some part moves far more that is no gradient than the usual one."""
    if gradients is None or not one.cuts.size:
        return False
    rest = np.add.reduceat(np.where(gradients, 0, moved), np.append(0, one.cuts))
    return bool(rest.max() > EVALUATES * np.median(rest))


def _by_length(at: Ints, gap: Ints, before: Floats, fewest: int) -> list[Division]:
    """Divisions at the longest gaps only; ``before`` are bytes, or records, before each record."""
    descending = np.sort(gap)[::-1]
    counts = np.unique(np.geomspace(max(fewest - 1, 1), gap.size, THRESHOLDS).astype(np.int64))
    levels = np.unique(descending[counts[counts <= gap.size] - 1])
    inside = [max(gap[gap < level].max(initial=0), 1) for level in levels]
    return [
        divided(at[gap >= level], before, level / longest)
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
    """The divisions at all gaps longer than a threshold, for every threshold, and changed ones."""
    sizes = with_directions(sizes_of(traffic.size), traffic.couple, traffic.forth, traffic.size)
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
        cuts = gap >= descending[count - 1]
        clarity = descending[count - 1] / max(longest_inside, 1)
        division = divided(at[cuts], sizes.every, clarity)
        found += [division, *_changed(division, sizes, (at, gap), gap[cuts])]
    return _without_needless(found)


def _changed(
    division: Division, sizes: Sizes, gaps: tuple[Ints, Ints], cutting: Ints
) -> Iterator[Division]:
    """The division with evaluations joined to steps, with more cuts, and with fewer cuts.

    ``gaps`` has the record after each gap, and its length [ns]; ``cutting`` has the lengths of
    those that cut.
    """
    evaluated = _with_evaluations(division, sizes)
    if evaluated is not None:
        yield evaluated
    parted = split(division, sizes.every, gaps)
    if parted is not None:
        yield parted
    for away in sorted({REPAIR, *(LOSSY & {division.tolerance})}):
        joined = repaired(division, sizes.every, cutting, away)
        if len(joined) < len(division) and joined.quality > division.quality:
            yield joined


def _without_needless(found: list[Division]) -> list[Division]:
    """``found`` without evaluations, if long silences part the traffic into equal parts.

    Buckets of several sizes may then look like steps of which some hold an evaluation.
    """
    clear = any(
        one.clarity >= CLEAR and one.quality >= EXACT and not one.evaluated for one in found
    )
    return [one for one in found if not (clear and one.evaluated)]


def _with_evaluations(division: Division, sizes: Sizes) -> Division | None:
    """The division without cuts before evaluations, if its parts are steps; None if not."""
    cuts = steps_and_evaluations(division.cuts, sizes)
    if cuts is None:
        return None
    volumes = np.diff(sizes.every[np.concatenate(([0], cuts, [sizes.every.size - 1]))])
    return Division(cuts, volumes, EVEN, 1.0, 1.0, division.clarity, evaluated=True)

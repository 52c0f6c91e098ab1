"""Micro-batches that look like steps: only some of them end with an update.

Ranks that hold shards gather parameters and reduce gradients in every micro-batch, so micro-batches
move equal bytes. The next one's gathers follow the last reduction at once, as messages inside a
pass do. After a step they wait: no rank has parameters to send before its optimizer has updated
them. So if equal parts are steps, the place between reductions and gathers is silent in all of
them. If it is silent in some parts only, and that is the only such place, silences there end the
steps. The parts may be cut elsewhere, as where forward passes take longer than gathers.

Silences at equal distances are believed to be updates, unless there are so few parts that this may
be chance. One or two, or some at other distances, may also be ranks that waited for another reason.
If they are longer than those between the parts, nothing is known about the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import comb

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.parameters import QUARTER
from llmprism.numerics.arrays import Floats, Ints
from prism_common.early import INTS

SAME_PLACE = 2e-3  # of a part
AT_PLACE = 0.6  # share of cuts at one place, from which parts are equal
CLEARLY = 10.0  # ratio of a silence to those at the same place of other parts
PAUSE = 10.0  # ... of a pause after some of the updates to the others
LONGEST = 4  # silences a part that are looked at
SHORTEST = 0.05  # quantile of the silences that are shown: about the exporter's idle gap
HIDDEN = 2.0  # times that: a silence that others of its kind, not shown, may be like
CHANCE = 0.02  # that so many silences are in parts at equal distances for no reason
BELIEVED = 3  # updates, or parts between two of them, from which equal distances are believed
QUALITY, LONGER = 0.98, 1.5  # quality and clarity of parts that every k-th silence makes
MOST = 8  # micro-batches of a step, or steps between two pauses, that are looked at
SILENT = 0.05  # chance that so many silences are the longest, by which nothing is doubted
PARTS = 16  # of a message that move at the same time, at most: queue pairs
FEW = 16  # parts, up to which one or two silences mean something


def updates(traffic: Traffic, parts: Division) -> Ints:
    """First record of each step but the first, if ``parts`` are micro-batches of several steps.

    Pauses after some steps are much longer than updates, so shorter silences are looked at first.
    """
    rests = _rests_of(traffic, parts)
    for clearly in (CLEARLY * PAUSE, CLEARLY):
        found = _seldom(rests, clearly)
        if found is not None and found.are_regular():
            return found.first
    return INTS


def may_be_micro_batches(traffic: Traffic, parts: Division) -> bool:
    """Whether some of the ``parts`` end with an update, so that they may be no steps.

    An exporter does not show silences that are shorter than its idle gap. Where those that it shows
    are little longer, the other parts may have such silences, too. Steps have as many micro-batches
    each: silences after one part and the next, and in no others, are those of slow steps in a row.
    """
    found = _seldom(_rests_of(traffic, parts), CLEARLY)
    if found is None or (found.after.size < BELIEVED and found.count >= FEW):
        return False
    if found.after.size >= BELIEVED and (np.diff(found.after) == 1).mean() >= AT_PLACE:
        return False
    rests_ns = traffic.rests_ns()
    shown_ns = float(np.quantile(rests_ns[rests_ns > 0], SHORTEST))
    return found.rest_ns >= max(found.usual_ns, HIDDEN * shown_ns)


def updates_or_pauses(own: Sequence[Division], count: int) -> bool:
    """Whether the silence after every k-th of ``count`` equal parts is longer than all others.

    Replicas of shards reduce gradients in every micro-batch, and gather nothing that is seen. So an
    update after every k-th micro-batch looks like an evaluation, or a saved state, after every k-th
    step. The last step may lack what it would gather in the next one. ``own`` are the divisions
    of the same traffic.
    """
    return any(
        len(one) * every - count in (0, 1)
        and one.quality >= QUALITY
        and one.clarity >= LONGER
        and SILENT * comb(count - 1, len(one) - 1) >= 1
        for one in own
        for every in range(2, MOST + 1)
    )


@dataclass(frozen=True)
class _Rests:
    """Silences of equal parts, and where they are.

    Attributes
    ----------
    traffic : what is parted.
    cut : first records of the parts, where equal ones begin.
    place : parts before each record, since the first cut.
    rest_ns : silence before each record [ns], 0 or less if there is none.
    usual_ns : median of the silences between parts [ns].
    """

    traffic: Traffic
    cut: Ints
    place: Floats
    rest_ns: Ints
    usual_ns: float

    @property
    def count(self) -> int:
        """Number of whole parts."""
        return int(np.rint(self.place[self.cut[-1]] - self.place[self.cut[0]])) + 1

    @cached_property
    def phase(self) -> Floats:
        """The place of each record within its part, in parts."""
        return np.asarray(self.place - np.floor(self.place + SAME_PLACE))

    @cached_property
    def inside(self) -> Ints:
        """Records that follow a silence inside parts."""
        return np.flatnonzero((self.rest_ns > 0) & (self.phase > SAME_PLACE))

    @cached_property
    def longest(self) -> list[int]:
        """Those that follow the longest silences, the longest one first.

        Silences as short as those between all parts are not like one that is clearly longer.
        """
        first = self.inside[np.argsort(-self.rest_ns[self.inside], kind="stable")]
        first = first[: LONGEST * self.count]
        longest_ns = self.rest_ns[first[0]]
        least_ns = QUARTER * longest_ns
        if longest_ns >= HIDDEN * self.usual_ns:
            least_ns = max(least_ns, self.usual_ns)
        return [one for one in first.tolist() if self.rest_ns[one] >= least_ns]


@dataclass(frozen=True)
class _Seldom:
    """Silences at a place where all other parts have none.

    Attributes
    ----------
    first : first record after each.
    after : number of the part whose place it is, from 0.
    count : of whole parts.
    rest_ns, usual_ns : median of them, and of the silences between parts [ns].
    """

    first: Ints
    after: Ints
    count: int
    rest_ns: float
    usual_ns: float

    def are_regular(self) -> bool:
        """Whether they are at equal distances, and so many that this is no chance."""
        after = self.after
        if after.size < BELIEVED - 1:
            return False
        every = np.diff(after)
        regular = every.min() == every.max() and every.min() > 1
        inside = after[0] <= every[0] and self.count - after[-1] <= every[0]
        whole = after[0] == every[0] == self.count - after[-1] and every[0] >= BELIEVED
        ways = 1 if whole else int(every[0])  # to be at equal distances
        rare = ways / comb(self.count, after.size) < CHANCE
        return bool(regular and rare and (whole if after.size < BELIEVED else inside))


def _rests_of(traffic: Traffic, parts: Division) -> _Rests | None:
    """The silences of ``parts``; None if these are not equal, or rest longer than shards do."""
    place, cut = _places(traffic, parts)
    if cut.size < 2:
        return None
    rest_ns = np.concatenate(([0], traffic.rests_ns()))
    part_ns = float(traffic.start_ns[cut[-1]] - traffic.start_ns[cut[0]]) / (place[cut[-1]] or 1)
    rests = _Rests(traffic, cut, place, rest_ns, float(np.median(rest_ns[cut])))
    return rests if rests.inside.size and rests.usual_ns <= QUARTER * part_ns else None


def _seldom(rests: _Rests | None, clearly: float) -> _Seldom | None:
    """The silences at the one place that is silent in some parts only; None if there is none.

    The longest one is less than ``clearly`` times as long as each of them.
    """
    if rests is None:
        return None
    rest_ns, inside, phase = rests.rest_ns, rests.inside, rests.phase
    found: list[Ints] = []
    for one in rests.longest:
        if any(abs(phase[one] - phase[own[0]]) <= SAME_PLACE for own in found):
            continue
        before = max(own[own <= one].max(initial=0) for own in (rests.cut, *found[:1]))
        if _while_ranks_begin(rests, before, one):
            continue
        alike = inside[np.abs(phase[inside] - phase[one]) <= SAME_PLACE]
        alike = _without_parts(rests, alike[rest_ns[alike] * clearly > rest_ns[one]])
        if 0 < 2 * alike.size < rests.count:
            found.append(alike)
    after = np.floor(rests.place[found[0]]).astype(np.int64) + 1 if len(found) == 1 else INTS
    if after.size == 0 or np.unique(after).size < after.size:
        return None
    usual_ns = float(np.median(rest_ns[found[0]]))
    return _Seldom(found[0], after, rests.count, usual_ns, rests.usual_ns)


def _without_parts(rests: _Rests, own: Ints) -> Ints:
    """Those of the silences ``own`` that do not only go on with the one before."""
    before = [0, *own.tolist()]
    goes_on = [_while_ranks_begin(rests, *pair) for pair in pairwise(before)]
    return own[~np.array(goes_on, np.bool_)]


def _while_ranks_begin(rests: _Rests, before: int, one: int) -> bool:
    """Whether the silences ``before`` a record and before the record ``one`` are one rest.

    Ranks do not end their updates at the same time, nor do they all begin with the records. Some
    have begun, and others have not: no connection has begun its second message. The parts of a
    message may move at the same time. First messages are no more than the gathers of the first pass
    move, but a record may hold more.
    """
    traffic = rests.traffic
    between = slice(before, one)
    if one - before > 2 * PARTS * (int(traffic.couple.max()) + 1):
        return False
    if rests.place[one] - rests.place[before] > QUARTER:
        return False
    line = 2 * traffic.couple[between].astype(np.int64) + traffic.forth[between]
    _, opens, which = np.unique(line, return_index=True, return_inverse=True)
    ended_ns = traffic.end_ns[between][opens[which]]
    later = np.arange(line.size) != opens[which]
    return not bool((traffic.start_ns[between] >= ended_ns)[later].any())


def _places(traffic: Traffic, parts: Division) -> tuple[Floats, Ints]:
    """Parts before each record, since the first cut, and the cuts at whole numbers of parts.

    No cuts if ``parts`` are not equal, most of them.
    """
    before = np.concatenate(([0.0], np.cumsum(traffic.size, dtype=np.float64)[:-1]))
    if parts.cuts.size < 2:
        return before, INTS
    at = before[parts.cuts]
    at, whole = at - at[0], float(np.median(np.diff(at)))
    equal = np.abs(at / whole - np.rint(at / whole)) <= SAME_PLACE
    if equal.mean() < AT_PLACE or at[equal][-1] == 0:
        return before, INTS
    whole = float(at[equal][-1] / np.rint(at[equal][-1] / whole))
    return (before - before[parts.cuts[0]]) / whole, parts.cuts[equal]

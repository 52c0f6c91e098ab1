"""What the silences between equal parts show: updates, pauses, or passes that send nothing.

A coarser division cuts at every k-th silence of a finer one. Its gaps may be longer than the others
by an optimizer's update between micro-batches, or by a pause between steps.

Ranks that share parameters move the same bytes in every micro-batch. An update follows the last one
of a step, and sends nothing. It may be shorter than the silences inside a pass, so no threshold on
silences finds it. But all parts have the same bytes, so they can be laid one on another. If the
longest of k neighbours is always the k-th, that is no chance, and the moment in the part from which
on it is behind the others is the update.
"""

from __future__ import annotations

import numpy as np
from scipy.special import bdtrc

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.cycles.cycles import Division, Traffic, divided
from llmprism.methods.prism.cycles.evaluations import bytes_before
from llmprism.methods.prism.parameters import EQUAL, HALF
from llmprism.methods.prism.steps.proposals import Proposals
from llmprism.numerics.arrays import Floats, Ints

CHANCE = 0.01  # of longer gaps at equal distances: what is looked at; of every second of 7, 0.03
RARE = 1e-4  # chance of longer gaps at equal distances that is believed
TICKS = 2  # of the clock: differences of gaps that rounding makes
RESTS = 0.05  # of a step: ranks compute for longer than that
ACCUMULATES = 0.45  # of a part: a forward pass, and the backward pass of the layers that come first
MOST_MICRO_BATCHES = 4  # that each reduce gradients; a pause may follow every so many steps
SHOWN = 6  # steps that show it


def accumulate(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether all classes rest for so long between fine parts that these are steps.

    Ranks that reduce gradients in every micro-batch do so all through backward passes, which take
    twice as long as forward passes, or longer. So parts with a longer silence are steps.
    """
    for traffic, finer, coarser in proposals.showing(fine, coarse):
        others = gaps_of(traffic, finer, coarser)[1]
        if others.size == 0 or np.median(others) < ACCUMULATES * finer.usual_ns(traffic):
            return False
    return True


def stands_apart(traffic: Traffic, fine: Division, coarse: Division) -> bool:
    """Whether the gaps of the coarse division are longer by more than the others differ."""
    gap, others = gaps_of(traffic, fine, coarse)
    if others.size == 0:
        return True
    differ = max(np.ptp(others), TICKS * clock_tick_ns(traffic.start_ns))
    return bool(gap.min() - others.max() > differ)


def gaps_of(traffic: Traffic, fine: Division, coarse: Division) -> tuple[Ints, Ints]:
    """Gaps [ns] of the coarse division, and those of the fine one inside its parts."""
    gap = traffic.rests_ns()
    return gap[coarse.cuts - 1], gap[np.setdiff1d(fine.cuts, coarse.cuts) - 1]


def longer_by(proposals: Proposals, fine: int, coarse: int) -> float:
    """By how much the coarse gaps are longer, in fine parts; of the class where it is least."""
    found = []
    for traffic, finer, coarser in proposals.showing(fine, coarse):
        gap, others = gaps_of(traffic, finer, coarser)
        part_ns = finer.usual_ns(traffic)
        if others.size and part_ns > 0:
            found.append(float(np.median(gap) - np.median(others)) / part_ns)
    return min(found, default=np.inf)


def lengthened(traffic: Traffic, fine: Division) -> Division | None:
    """The division that cuts where every k-th part of a finer one stands still; None without k."""
    length_ns = np.diff(traffic.start_ns[fine.firsts]).astype(np.float64)
    whole = np.abs(fine.volumes / np.median(fine.volumes) - 1) <= EQUAL
    inner = np.flatnonzero(whole[:-1])
    if inner.size < 2 * SHOWN or (np.diff(inner) > 1).any():
        return None
    period, place = _period(length_ns[inner])
    if not period:
        return None
    longer = inner[place::period]
    return _cut_in(traffic, fine, np.setdiff1d(inner, longer), longer)


def _period(length_ns: Floats) -> tuple[int, int]:
    """Number of neighbours of which the longest always has the same place, and that place; or 0."""
    least, best = CHANCE * RARE, (0, 0)
    for period in range(2, length_ns.size // SHOWN + 1):
        groups = length_ns.size // period
        longest = length_ns[: groups * period].reshape(groups, period).argmax(axis=1)
        hits = np.bincount(longest, minlength=period)
        if hits.max() <= HALF * groups:
            continue
        chance = period * float(bdtrc(int(hits.max()) - 1, groups, 1 / period))
        if chance < least:
            least, best = chance, (period, int(hits.argmax()))
    return best


def _cut_in(traffic: Traffic, fine: Division, others: Ints, longer: Ints) -> Division | None:
    """The division that cuts each ``longer`` part where it falls behind the ``others``.

    None if it does so little by little, as traffic does that shares links. It is as clear as the
    silence there is longer than that at the same place of the others.
    """
    before, usual = bytes_before(traffic.size), float(np.median(fine.volumes))
    place = np.linspace(0.0, usual, len(traffic) // len(fine) + 1)
    slow_ns, fast_ns = (
        np.median(_progress_ns(traffic, before, fine.firsts[parts], place), axis=0)
        for parts in (longer, others)
    )
    behind_ns = slow_ns - fast_ns
    late = place[int(np.argmax(behind_ns >= HALF * behind_ns[-1]))]
    slow, fast = (
        _after_rests(traffic, before, fine.firsts[parts], late, EQUAL * usual)
        for parts in (longer, others)
    )
    until_ns = np.append(0, np.diff(traffic.start_ns))
    if np.median(until_ns[slow]) - np.median(until_ns[fast]) < max(HALF * behind_ns[-1], 1.0):
        return None
    rests_ns = np.append(0, traffic.rests_ns())
    usual_ns = max(float(np.median(rests_ns[fast])), 1.0)
    return divided(slow, before, float(np.median(rests_ns[slow])) / usual_ns)


def _progress_ns(traffic: Traffic, before: Floats, begins: Ints, place: Floats) -> Floats:
    """Time from the begin of each part to each place in it, shape (parts, places)."""
    record = np.searchsorted(before, before[begins][:, None] + place)
    at_ns = traffic.start_ns[np.minimum(record, len(traffic) - 1)]
    return np.asarray(at_ns - traffic.start_ns[begins][:, None], np.float64)


def _after_rests(traffic: Traffic, before: Floats, begins: Ints, late: float, near: float) -> Ints:
    """The record after the longest rest of each part, ``near`` its byte ``late``."""
    rests_ns = np.append(0, np.diff(traffic.start_ns))
    first, last = (np.searchsorted(before, before[begins] + late + way) for way in (-near, near))
    first = np.minimum(first, len(traffic) - 1)
    ends = np.minimum(np.maximum(last, first) + 1, len(traffic))
    found = [
        low + int(np.argmax(rests_ns[low:high]))
        for low, high in zip(first.tolist(), ends.tolist(), strict=True)
    ]
    return np.array(found, np.int64)

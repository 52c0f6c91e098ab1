"""What the silences between equal parts show: updates, pauses, or passes that send nothing.

A coarser division cuts at every k-th silence of a finer one. Its gaps may be longer than the others
by an optimizer's update between micro-batches, or by a pause between steps.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.updates import holds_updates
from llmprism.methods.prism.parameters import EQUAL, SMALL
from llmprism.methods.prism.steps.proposals import GOOD, Proposals, extent, of_count
from llmprism.numerics.arrays import Ints

CHANCE = 0.01  # of longer gaps at equal distances: what is looked at; of every second of 7, 0.03
RARE = 1e-4  # chance of longer gaps at equal distances that is believed
TICKS = 2  # of the clock: differences of gaps that rounding makes
RESTS = 0.05  # of a step: ranks compute for longer than that
ACCUMULATES = 0.45  # of a part: a forward pass, and the backward pass of the layers that come first
MOST_MICRO_BATCHES = 4  # that each reduce gradients; a pause may follow every so many steps
SHOWN = 6  # steps that show it


def accumulate(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether all classes rest for so long between fine parts that these are steps.

    Ranks with shards either gather parameters in all passes, and hardly rest; or, if the shards are
    inside servers, reduce gradients all through the backward passes of every micro-batch, which
    take twice as long as forward passes, or longer. So parts with a longer silence are steps: they
    accumulate gradients of several micro-batches, or have no shards.
    """
    least = RESTS if proposals.single else ACCUMULATES
    for traffic, finer, coarser in proposals.showing(fine, coarse):
        others = gaps_of(traffic, finer, coarser)[1]
        part_ns = finer.usual_ns(traffic)
        if others.size == 0 or np.median(others) < least * part_ns:
            return False
    return True


def show_micro_batches(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether an update follows every k-th fine part, and none of them accumulates gradients."""
    own = (proposals, fine, coarse)
    if gather_and_reduce(proposals, fine):
        return updates_between(*own)
    holds = any(
        (finer := of_count(divisions, fine)) is not None and holds_updates(one.traffic, finer)
        for one, divisions in proposals.each()
    )
    return not holds and updates_between(*own) and not accumulate(*own)


def gather_and_reduce(proposals: Proposals, fine: int) -> bool:
    """Whether one of two classes gathers parameters in every fine part, and the other one reduces.

    Some libraries gather in one direction of a ring and reduce in the other one (gloo). Sharded
    parameters are gathered in both passes, gradients are reduced from the backward pass on, and
    after the last gather. Then no pass is silent, however long the parts rest.
    """
    shown = [
        (one.connections.size, *extent(one.traffic, finer))
        for one, own in proposals.each()
        if (finer := of_count(own, fine)) is not None
    ]
    if len(proposals.classes) != 2 or len(shown) != 2 or shown[0][0] != shown[1][0]:
        return False
    (_, begin_ns, end_ns), (_, begins_ns, ends_ns) = sorted(shown, key=lambda one: one[1][0])
    least_ns = SMALL * float(np.median(np.diff(begin_ns)))
    apart = (begins_ns - begin_ns, ends_ns - end_ns, end_ns - begins_ns)
    return all(float(np.median(by_ns)) > least_ns for by_ns in apart)


def updates_between(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether silences of all classes are longer by an update before every k-th fine part.

    Not each of them needs to be, as ranks wait for cores and for each other. What makes them longer
    by less than a tenth of a part, after every second to fourth one, is no pause. One class shows
    which parts these are: others may rest for as long in the middle of a step.
    """
    places = _places(proposals, fine, coarse)
    if fine > MOST_MICRO_BATCHES * coarse or coarse < SHOWN or places is None:
        return False
    chances = []
    for one, own in proposals.each():
        finer = of_count(own, fine)
        if finer is None or finer.evaluated:
            return False
        rests_ns = one.traffic.rests_ns()[finer.cuts - 1]
        gap, others = rests_ns[places], np.delete(rests_ns, places)
        part_ns = finer.usual_ns(one.traffic)
        if not 0 < float(np.median(gap) - np.median(others)) <= SMALL * part_ns:
            return False
        chances.append(_chance_of_longer(gap, others))
    return max(chances) <= CHANCE and min(chances) <= RARE


def _places(proposals: Proposals, fine: int, coarse: int) -> Ints | None:
    """Which cuts of the fine division end coarse parts, in the first class that shows both."""
    for _, finer, coarser in proposals.showing(fine, coarse):
        if coarser.quality >= GOOD and np.isin(coarser.cuts, finer.cuts).all():
            return np.searchsorted(finer.cuts, coarser.cuts)
    return None


def _chance_of_longer(gap: Ints, others: Ints) -> float:
    """Probability that some gaps are longer than others as often by chance (Mann and Whitney)."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(gap, others, alternative="greater").pvalue)


def stands_apart(traffic: Traffic, fine: Division, coarse: Division) -> bool:
    """Whether the gaps of the coarse division are longer by more than the others differ."""
    gap, others = gaps_of(traffic, fine, coarse)
    if others.size == 0:
        return True
    differ = max(np.ptp(others), TICKS * clock_tick_ns(traffic.start_ns))
    return bool(gap.min() - others.max() > differ)


def follow_at_once(traffic: Traffic, fine: Division, coarse: Division) -> bool:
    """Whether fine parts of messages of one size follow each other at once, as buckets do.

    A step leaves time to compute. An algorithm may send a bucket in several messages.
    """
    others = gaps_of(traffic, fine, coarse)[1]
    part_ns = fine.usual_ns(traffic)
    rests = others.size and np.median(others) > RESTS * part_ns
    return not rests and bool(traffic.size.max() <= (1 + EQUAL) * traffic.size.min())


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

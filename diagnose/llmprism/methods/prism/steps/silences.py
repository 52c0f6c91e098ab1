"""What the silences between equal parts show: updates, pauses, or passes that send nothing.

A coarser division cuts at every k-th silence of a finer one. Its gaps may be longer than the others
by an optimizer's update between micro-batches, or by a pause between steps.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.parameters import EQUAL
from llmprism.methods.prism.steps.proposals import Proposals
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

"""Ranks that drift apart: they do not wait for each other between micro-batches.

A step ends when gradients are reduced, and all ranks begin the next one from there. Between two
micro-batches nobody waits for a reduction, so differences of speed add up: the ranks begin to
send ever less at the same time, until an update brings them together. If parts were steps, they
would begin as closely in each of them, whatever pause comes before some.
"""

from __future__ import annotations

from math import erfc, sqrt

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.steps.proposals import Proposals
from llmprism.numerics.arrays import Floats

CHANCE = 0.01  # that ranks begin further and further apart for no reason, in so many parts


def drift_apart(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether ranks begin ever less together in the fine parts of each coarse one.

    All classes that show both kinds of parts show it.
    """
    shown = proposals.showing(fine, coarse)
    return bool(shown) and all(chance_of_trend(*one) <= CHANCE for one in shown)


def chance_of_trend(traffic: Traffic, fine: Division, coarse: Division) -> float:
    """Probability that ranks begin further and further apart as often by chance.

    Kendall's test for a trend, summed over the coarse parts with the usual number of fine ones.
    """
    spread = _spreads(traffic, fine)
    groups = np.split(spread, np.searchsorted(fine.cuts, coarse.cuts) + 1)
    held = np.bincount([own.size for own in groups]).argmax()
    whole = np.array([own for own in groups if own.size == held])
    later = np.sign(whole[:, None, :] - whole[:, :, None])
    grows = float(np.triu(later).sum())
    variance = len(whole) * held * (held - 1) * (2 * held + 5) / 18
    return erfc(grows / sqrt(2 * variance)) / 2 if variance else 1.0


def _spreads(traffic: Traffic, parts: Division) -> Floats:
    """Time between the first and the last rank's first record in each of the ``parts`` [ns]."""
    part = parts.part_of(len(traffic))
    line = 2 * traffic.couple.astype(np.int64) + traffic.forth  # the couple, and the direction
    never = np.iinfo(np.int64).max
    opening = np.full((len(parts), int(line.max()) + 1), never)
    np.minimum.at(opening, (part, line), traffic.start_ns)
    seen = (opening < never).all(axis=0)
    return np.asarray(np.ptp(opening[:, seen], axis=1) if seen.any() else np.zeros(len(parts)))

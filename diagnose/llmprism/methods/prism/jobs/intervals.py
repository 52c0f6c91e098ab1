"""How long steps took, by intervals of several steps, and how long the faster ones take.

Faults make steps longer. The period is that of the faster steps, where most of them have no fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.parameters import FEWEST
from llmprism.numerics.arrays import quantile_by_weight

SHORT, NEAR = 0.25, 0.05  # share of all steps that the faster ones have; steps as long as others


@dataclass(frozen=True)
class Interval:
    """Steps ``first`` to ``last`` (exclusive) took ``step_ns`` each, by one connection."""

    first: int
    last: int
    step_ns: float


def faster_ns(intervals: Sequence[Interval]) -> float:
    """Length of the faster steps [ns]: the shortest one that a good part of all steps has.

    A few intervals are too short or too long: acknowledgements join records to the next step. Some
    are mixed: they hold others that are faster or slower.
    """
    first, last, took = np.array([(one.first, one.last, one.step_ns) for one in intervals]).T
    many = last - first
    holds = (first[:, None] <= first) & (last <= last[:, None])
    holds &= (many < many[:, None]) & (many >= FEWEST)
    mixed = (holds & (np.abs(took - took[:, None]) > NEAR * took[:, None])).any(axis=1)
    took, many = took[~mixed], many[~mixed]
    alike = np.abs(took - took[:, None]) < NEAR * took[:, None]
    share = alike @ many / many.sum()
    usual = share >= min(SHORT, share.max())
    least = took[usual].min()
    best = np.lexsort((took, -share * (np.abs(took - least) < NEAR * least)))[0]
    return quantile_by_weight(took[alike[best]], many[alike[best]], 0.5)

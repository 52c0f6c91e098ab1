"""Divides a sequence of flows into steps at the gaps between training steps.

Within a step, the intervals between flows have one scale; between steps there is one
much longer interval. Bayesian online change-point detection processes the intervals of a sequence;
an interval that begins a new regime *upward* is a step gap.

The publication leaves the following open; each choice has its reason:

- *Trap 3.* P(run length = 0) equals the hazard at every point, so a literal "> 0.95" never
  fires. The probability mass on run lengths up to 1 is used (see
  :mod:`llmprism.numerics.bocd`), and the detector restarts after a gap: a gap is an isolated
  spike, not a regime.
- *Scale.* Intervals are positive and span decades, so their logarithm is used, relative to a
  typical interval within a step: the 0.4 quantile of the sequence (below the gaps, if
  a step has two flows or more). Shorter intervals count as this one, since only long ones can
  be gaps. The result does not depend on the unit of time, and an exactly periodic sequence needs
  no special case.
- *Spread within a step.* Buckets end at layer boundaries, so sizes, and hence intervals,
  differ by up to about three times: the standard deviation of the logarithm is that
  of a uniform distribution over ln 3. Its weight is that of 100 intervals, because
  a step rarely has enough intervals to estimate its spread.
- *Level of a gap.* A gap is expected near the longest interval of the sequence, with a
  tolerance of a third of it (of its logarithm). So if gaps are a hundred times
  longer than usual intervals, an interval of five times the usual one is not a gap.
- *Hazard.* One in ten: a step has about ten flows.
- *Simultaneous flows.* Flows of one collective start together (to the next rank and from the
  one before). Starts closer than a tenth of the shorter flow's length are one event.

With these choices, gaps of at least five times the typical interval are found, if a step has three
flows or more and nothing longer than its gaps is in the sequence; at least seven times, with two
flows. A sequence with one flow per step shows no gaps and stays whole. A long silence within a
collective (a rank that waits for a slow neighbour between two records) looks like a gap, and
divides the step in two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llmprism.numerics.arrays import Bools, Codes, Floats, Grouped, Ints
from llmprism.numerics.bocd import CutRule, Prior, cut_upward
from prism_common.compiled import compiled

TYPICAL_QUANTILE = 0.4
TOGETHER = 0.1  # of the shorter flow's length
SMALLEST_GAP = math.log(5.0)
GAP_UNCERTAINTY = 1.0 / 3.0  # of the longest level
RULE = CutRule(hazard=0.1, threshold=0.95)  # the threshold is as published

_SPREAD = math.log(3.0) / math.sqrt(12.0)  # standard deviation of a uniform of width ln 3
_CERTAINTY = 50.0  # half of 100 intervals
WITHIN_STEP = Prior(mean=0.0, kappa=0.03, alpha=_CERTAINTY, beta=_CERTAINTY * _SPREAD**2)


@dataclass(frozen=True)
class Cuts:
    """Steps of every sequence, one entry per flow in grouped order.

    Attributes
    ----------
    step : number of the step within its group, from 0, shape (entries,).
    sureness : posterior mass of the cut before an entry, 0 if there is none.
    """

    step: Codes
    sureness: Floats


def cut_steps(start_ns: Ints, end_ns: Ints, by: Grouped) -> Cuts:
    """Cut every group of flows into steps.

    Parameters
    ----------
    start_ns, end_ns : of all flows, in order of start [ns], shape (rows,).
    by : the flows of each sequence; may name a row in several groups.
    """
    starts, lengths = start_ns[by.order], end_ns[by.order]
    lengths -= starts
    first = np.flatnonzero(_events(starts, lengths, by.offsets))  # entries that open an event
    del lengths
    group = by.codes[first]
    within = np.flatnonzero(np.diff(group, prepend=-1) == 0)  # events with one before them
    intervals = (starts[first[within]] - starts[first[within - 1]]).astype(np.float64)
    del starts
    offsets = np.searchsorted(group[within], np.arange(by.offsets.size))
    mass = _find_gaps(_levels(intervals, offsets), offsets)
    del intervals, group
    sureness = np.zeros(by.order.size)
    sureness[first[within]] = mass
    step = np.cumsum(sureness > 0, dtype=np.int32)
    before = np.append(step, 0)[by.offsets[:-1] - 1]
    step -= np.repeat(before, by.sizes)
    return Cuts(step, sureness)


@compiled
def _events(starts: Ints, lengths: Ints, offsets: Ints) -> Bools:
    """Mark entries that do not start together with the first entry of the last event."""
    opens = np.ones(starts.size, dtype=np.bool_)
    for g in range(offsets.size - 1):
        leader = offsets[g]
        for i in range(offsets[g] + 1, offsets[g + 1]):
            shorter = min(lengths[i], lengths[leader])
            if starts[i] - starts[leader] <= TOGETHER * shorter:
                opens[i] = False
            else:
                leader = i
    return opens


def _levels(intervals: Floats, offsets: Ints) -> Floats:
    """Return ln(interval / typical interval of its group), at least 0."""
    sizes = np.diff(offsets)
    ordered = intervals[np.lexsort((intervals, _group_of(offsets)))]
    has = sizes > 0
    at = offsets[:-1][has] + (TYPICAL_QUANTILE * (sizes[has] - 1)).astype(np.int64)
    typical = np.repeat(ordered[at], sizes[has])
    levels: Floats = np.log(np.maximum(intervals / typical, 1.0))
    return levels


def _find_gaps(levels: Floats, offsets: Ints) -> Floats:
    """Return the posterior mass of a cut at every interval that is a step gap, else 0."""
    longest = np.full(offsets.size - 1, SMALLEST_GAP)
    np.maximum.at(longest, _group_of(offsets), levels)
    kappa = (_SPREAD / (GAP_UNCERTAINTY * longest)) ** 2
    return cut_upward(levels, offsets, WITHIN_STEP, longest, kappa, RULE)


def _group_of(offsets: Ints) -> Ints:
    return np.repeat(np.arange(offsets.size - 1), np.diff(offsets))

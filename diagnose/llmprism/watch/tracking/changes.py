"""Whether the steps of a job have become longer or shorter: cumulative sums (Page, 1954).

Lengths are compared with what a step usually takes; or, if the job is slow already, with what its
last steps took. A sum grows with each step that is more than a deviation longer, and shrinks with
all others. It says that something has changed if it exceeds what the diagnosed steps reached
without a finding, since steps with a checkpoint or an evaluation are longer as a rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.numerics.arrays import Bools, Floats
from llmprism.numerics.missing import TO_SIGMA

ALLOWED = 1.0  # deviations by which a step may be longer
LEAST_SUM = 5.0  # reached by chance in one of some ten thousand steps
MOST = 8.0  # deviations of one step that count
SMALLEST = 0.003  # of a step: shorter delays are no finding
LAST = 5  # steps that show how long they take at present
ABOVE = 1.25  # times the largest sum of steps without a finding


@dataclass(frozen=True)
class Level:
    """What steps take at present, by how much they vary [ns], and the bound of sums."""

    usual_ns: float
    deviation_ns: float
    bound: float

    def is_left(self, lengths_ns: Floats) -> bool:
        """Whether the steps that follow are longer or shorter."""
        return any(_largest_sum(self, lengths_ns, sign) > self.bound for sign in (1.0, -1.0))


def level_of(lengths_ns: Floats, explained: Bools) -> Level:
    """The present level of steps, some of which a finding explains."""
    usual = float(np.median(lengths_ns))
    away = np.abs(lengths_ns - usual)
    deviation = max(TO_SIGMA * float(np.median(away)), SMALLEST * usual)
    plain = Level(usual, deviation, LEAST_SUM)
    others = lengths_ns[~explained]
    sums = [_largest_sum(plain, others, sign) for sign in (1.0, -1.0)]
    now = float(np.median(lengths_ns[-LAST:]))
    is_slow = abs(now - usual) > MOST * deviation
    return Level(now if is_slow else usual, deviation, max(LEAST_SUM, ABOVE * max(sums)))


def _largest_sum(level: Level, lengths_ns: Floats, sign: float) -> float:
    away = sign * (lengths_ns - level.usual_ns) / level.deviation_ns
    total = np.cumsum(np.clip(away, -MOST, MOST) - ALLOWED)
    lowest = np.minimum.accumulate(np.concatenate(([0.0], total)))[:-1]
    return float((total - lowest).max(initial=0.0))

"""Slow steps that differ in length, as they do where work is unevenly divided in each step.

A part that is slow makes every step longer by about as much.
"""

from __future__ import annotations

from llmprism.methods.prism.faults.context import JobView
from llmprism.methods.prism.faults.suspects.recurring import without_recurring_ns
from llmprism.numerics.missing import deviation, finite_median

IRREGULAR = 5.0  # times the spread of the steps before
VARIED = 0.03  # of what the steps are longer by


def irregular(job: JobView, first: int, last: int) -> bool:
    """Whether the steps of a stretch differ much more than those before."""
    duration_ns = without_recurring_ns(job.duration_ns)
    before, inside = duration_ns[:first], duration_ns[first : last + 1]
    longer = finite_median(inside) - finite_median(before)
    spread = deviation(inside)
    return bool(spread > max(IRREGULAR * deviation(before), VARIED * longer))

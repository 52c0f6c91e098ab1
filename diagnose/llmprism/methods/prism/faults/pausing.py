"""Pauses of a rank, and a rank or stage that is slow as a whole: which of both says more.

Most pauses lie in a stretch of slow steps if the rank is slow. If the steps between the pauses are
healthy, it pauses.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.suspects.repeated import steps_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect, overlap
from llmprism.numerics.missing import finite_median

AS_LONG = 0.5  # of what the steps of a stretch are longer: steps that are so by less are healthy
MOSTLY = 0.6  # share of the pauses of a rank that one stretch of slow steps explains


def seen_better(one: Suspect, other: Suspect) -> bool:
    """Whether ``other`` says more about the same rank, or about its stage."""
    same = _same_rank(one, other) and _tells_more(other, one)
    return same or of_slow_stage(one, other)


def of_slow_stage(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is pauses, most of them while a stage of its job is slow as a whole."""
    if (one.symptom, other.culprit_kind) != ("pauses", "stage") or other.job is not one.job:
        return False
    return _tells_more(other, one)


def _same_rank(one: Suspect, other: Suspect) -> bool:
    """Whether one is a rank that pauses, and the other that it is slow, in some common steps."""
    ranks = {one.level, other.level} == {"rank"} and other.job is one.job
    apart = ranks and {one.symptom, other.symptom} > {"pauses"}
    return apart and one.may_be(other) and overlap(one, other) > 0


def _tells_more(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` says more than ``other``: slow steps that hold most of the pauses, or not."""
    pausing, slow = (one, other) if one.symptom == "pauses" else (other, one)
    inside = [slow.first <= step <= slow.last for step in pausing.evidence["steps"]]
    mostly = sum(inside) > MOSTLY * len(inside) and not _healthy_between(slow, pausing)
    return mostly if one is slow else not mostly


def _healthy_between(slow: Suspect, pausing: Suspect) -> bool:
    """Whether a good part of the steps of a stretch lie between pauses, and are healthy.

    Steps around the stretch show what is healthy: those outside of the pauses may all be slow.
    """
    between = np.setdiff1d(steps_of(slow), steps_of(pausing))
    if between.size <= (1 - MOSTLY) * steps_of(slow).size:
        return False
    longer_ns = finite_median(slow.job.duration_ns[between]) - slow.cost.normal_ns
    return longer_ns < AS_LONG * (slow.cost.slow_ns - slow.cost.normal_ns)

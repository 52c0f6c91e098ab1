"""Late replicas and the ranks that make them late: which of both a finding is about.

A slow rank makes its replica late, and says more. But a late replica is surer than which of its
ranks is slow: where one is late, a rank of another one is not slow, and neither is a whole stage.
"""

from __future__ import annotations

from llmprism.methods.prism.faults.causes.late_replicas import SYMPTOM as LATE_REPLICA
from llmprism.methods.prism.faults.suspects.suspects import Suspect, overlap

SHOWS_MORE = ("slow_passes", "pauses", "unequal_bytes")  # than that a replica is late
PASSES = ("slow_passes", "pauses")  # symptoms of a rank of a pipeline that waits for nobody
SOME = 0.3  # share of the steps of a late replica in which another suspect shows why
MOSTLY = 0.6  # of what steps are longer: a replica that is late by so much explains them


def shown_better(one: Suspect, suspects: list[Suspect]) -> bool:
    """Whether ``one`` is a late replica, and another suspect shows why; or a rank of none of them.

    A slow rank makes its replica late. A late replica is surer than which of its ranks is slow.
    """
    if one.symptom != LATE_REPLICA:
        return _in_no_late_replica(one, suspects)
    return any(
        other.symptom in SHOWS_MORE
        and other.job is one.job
        and overlap(one, other) > SOME
        and not _in_no_late_replica(other, suspects)
        for other in suspects
    )


def _in_no_late_replica(one: Suspect, suspects: list[Suspect]) -> bool:
    """Whether ``one`` is a rank whose passes seem slow while replicas of other ranks are late.

    Or a stage: one that is slow as a whole makes all replicas late alike.
    """
    if one.symptom not in PASSES:
        return False
    if one.culprit_kind == "stage":
        return any(_is_late_instead(other, one) for other in suspects)
    if one.level != "rank":
        return False
    late = [
        {*other.evidence["one_of"]}
        for other in suspects
        if other.symptom == LATE_REPLICA and other.job is one.job and overlap(one, other) > 0.5
    ]
    return bool(late) and all(ranks.isdisjoint(one.evidence["one_of"]) for ranks in late)


def _is_late_instead(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is a replica that is late by most of what steps of ``other`` are longer."""
    return (
        one.symptom == LATE_REPLICA
        and one.job is other.job
        and overlap(other, one) > 0.5
        and one.lost_share is not None
        and one.lost_share >= MOSTLY * other.longer_share
    )

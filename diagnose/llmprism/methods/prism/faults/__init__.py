"""Findings: what was slow, why, whose fault it is, and what it cost.

Each cause has a module of its own that brings forward suspects, each with a stretch of steps
and its evidence. No suspect is believed on its own: the steps of the job must be longer in
that stretch than around it (:mod:`~.cost`).

To add a cause, write a :data:`~.suspects.Cause` and add it to :data:`CAUSES`.
"""

from __future__ import annotations

import pandas as pd

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.late_ranks import late_ranks
from llmprism.methods.prism.faults.slow_compute import slow_compute
from llmprism.methods.prism.faults.slow_network import slow_network
from llmprism.methods.prism.faults.stopped import stopped
from llmprism.methods.prism.faults.suspects import Cause, Suspect, table_of

CAUSES: tuple[Cause, ...] = (slow_compute, late_ranks, slow_network, stopped)

__all__ = ["CAUSES", "Context", "JobView", "find_findings"]


def find_findings(context: Context) -> pd.DataFrame:
    """All findings about the jobs of ``context``, in order of time."""
    suspects = [suspect for cause in CAUSES for suspect in cause(context)]
    return table_of(one for one in suspects if not _explained(one, suspects))


def _explained(one: Suspect, suspects: list[Suspect]) -> bool:
    """Whether another suspect explains what is seen of this one in the same steps.

    Inputs that arrive late by a slow link look like work. Collectives that wait for a late rank
    look slow, but lead to no single part of the network. Two faults at once are rarer.
    """
    if one.lost is not None:
        return False
    level = "network" if one.level == "rank" else "rank"
    if one.level == "network" and one.culprit_kind != "job":
        return False
    if one.level == "network" and one.first == 0:
        return True  # a job that warms up is slow without a fault
    return any(
        other.level == level
        and other.job is one.job
        and other.culprit_kind != "job"
        and _shared(one, other) > 0.5
        for other in suspects
    )


def _shared(one: Suspect, other: Suspect) -> float:
    """Share of the steps of ``one`` that ``other`` has too."""
    common = min(one.last, other.last) - max(one.first, other.first) + 1
    return max(0, common) / (one.last - one.first + 1)

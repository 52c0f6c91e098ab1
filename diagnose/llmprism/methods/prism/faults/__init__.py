"""Findings: what was slow, why, whose fault it is, and what it cost.

Each cause has a module of its own that brings forward suspects, each with a stretch of steps and
its evidence. No suspect is believed on its own: the steps of the job must be longer in that stretch
than around it (:mod:`~.cost`). A lasting stretch that no suspect explains is a finding about the
job (:mod:`~.unexplained`). A stage that is too long all along needs no stretch (:mod:`~.uneven`),
nor does a rank or a part of the network (:mod:`~.all_along`). A suspect that another one explains
is no finding (:mod:`~.explanations`), nor is what lasts for as long as another job runs
(:mod:`~.other_jobs`), or as its job has more to do (:mod:`~.more_work`).

To add a cause, write a :data:`~.suspects.Cause` and add it to :data:`CAUSES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from llmprism.methods.prism.faults.causes.all_along import all_along
from llmprism.methods.prism.faults.causes.imbalance import imbalance
from llmprism.methods.prism.faults.causes.incast import incast
from llmprism.methods.prism.faults.causes.late_ranks import late_ranks
from llmprism.methods.prism.faults.causes.late_replicas import late_replicas
from llmprism.methods.prism.faults.causes.partners import doubted, joined
from llmprism.methods.prism.faults.causes.pauses import pauses
from llmprism.methods.prism.faults.causes.reroutes import beside_shorter, reroutes
from llmprism.methods.prism.faults.causes.slow_compute import slow_compute
from llmprism.methods.prism.faults.causes.slow_network import slow_network
from llmprism.methods.prism.faults.causes.slow_parts import less_sure
from llmprism.methods.prism.faults.causes.slow_storage import slow_storage
from llmprism.methods.prism.faults.causes.stalls import stalls
from llmprism.methods.prism.faults.causes.uneven import uneven
from llmprism.methods.prism.faults.causes.unexplained import unexplained
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.explanations import explained
from llmprism.methods.prism.faults.more_work import more_work
from llmprism.methods.prism.faults.other_jobs import (
    beside_another,
    once_for_all_jobs,
    until_another,
)
from llmprism.methods.prism.faults.replicas import shown_better
from llmprism.methods.prism.faults.seconds import beside, costing, with_seconds
from llmprism.methods.prism.faults.shared_links import are_full, shares_links
from llmprism.methods.prism.faults.stops.stopped import stopped
from llmprism.methods.prism.faults.suspects.alternatives import with_alternatives
from llmprism.methods.prism.faults.suspects.cost import widened
from llmprism.methods.prism.faults.suspects.repeated import repeated, with_pauses
from llmprism.methods.prism.faults.suspects.suspects import (
    Cause,
    Suspect,
    adds_nothing,
    overlap,
    table_of,
)
from llmprism.numerics.memory import give_back

LEAST_SURE = 0.3  # what is wrong in two of three cases is a guess, where nothing else is known
EDGES = 1.5  # times the steps in which a rank was seen to be slow: those beside it belong to them

CAUSES: tuple[Cause, ...] = (
    slow_compute,
    late_ranks,
    late_replicas,
    pauses,
    slow_network,
    stalls,
    incast,
    reroutes,
    slow_storage,
    imbalance,
    stopped,
)

__all__ = ["CAUSES", "Context", "JobView", "find_findings"]


def find_findings(context: Context) -> pd.DataFrame:
    """All findings about the jobs of ``context``, in order of time."""
    every: list[Suspect] = []
    for cause in CAUSES:
        every += cause(context)
        give_back()
    brought = repeated([one for one in every if one.confidence > LEAST_SURE])
    guesses = [one for one in every if one.confidence <= LEAST_SURE]
    crowded = [one for one in brought if shares_links(context, one)]
    slow = [one for one in brought if not any(one is other for other in crowded)]
    slow = [one for one in slow if _is_slow(context, one)]
    slow = _slow_by_themselves(slow, [one for one in slow if one.is_believed], brought)
    costly = [one for one in slow if one.is_believed]  # what costs nothing explains nothing
    suspects = [one for one in costly if not shown_better(one, costly)]
    kept = [one for one in suspects if not explained(one, suspects)]
    kept = with_seconds(kept, slow)
    kept = [with_pauses(one, costly, kept) for one in kept]
    kept = [less_sure(one) for one in kept]
    guesses += [one for one in kept if one.confidence <= LEAST_SURE]
    believed = [one for one in joined(context, kept) if one.is_believed]
    believed = [one for one in believed if not any(adds_nothing(one, o) for o in believed)]
    named = doubted([one for one in _with_edges(believed) if one.is_believed])
    named = [one for one in named if one.confidence > LEAST_SURE]
    others = [one for one in unexplained(context, named, guesses) if one.is_believed]
    others = [one for one in others if _is_slow(context, one)]
    others = [one for one in others if not any(_in_steps_of(one, other) for other in crowded)]
    others = _slow_by_themselves(others, named, brought)
    found = costing([*named, *others])
    found = [beside(one, found) for one in found]
    found = once_for_all_jobs(with_alternatives(context, found, brought))
    found += uneven(context, found)
    always = [one for one in all_along(context, found) if one.confidence > LEAST_SURE]
    return table_of([*found, *(one for one in always if not are_full(context, one))])


def _is_slow(context: Context, one: Suspect) -> bool:
    """Whether its job has neither more to do in the steps of ``one``, nor another job beside it."""
    return not (beside_another(one, context.jobs) or more_work(context, one))


def _in_steps_of(one: Suspect, other: Suspect) -> bool:
    """Whether ``other`` is what its job waits for in most steps of ``one``."""
    return other.job is one.job and overlap(one, other) > 0.5


def _slow_by_themselves(
    suspects: Sequence[Suspect], named: Sequence[Suspect], brought: Sequence[Suspect]
) -> list[Suspect]:
    """Those that are not slow only until a job that is ``named`` stops or becomes slow.

    Nor beside faster steps over the uplinks of one that is ``brought`` forward.
    """
    return [
        one
        for one in suspects
        if not any(until_another(one, other) for other in named)
        and not any(beside_shorter(one, other) for other in brought)
    ]


def _with_edges(named: Sequence[Suspect]) -> list[Suspect]:
    """``named``, with neighbouring slow steps of their jobs that no other of them has."""
    found = []
    for one in named:
        if one.lost is not None:
            found.append(one)
            continue
        others = [other for other in named if other is not one and other.job is one.job]
        begin = max((o.last + 1 for o in others if o.last < one.first), default=0)
        end = min((o.first - 1 for o in others if o.first > one.last), default=one.job.count - 1)
        first, last = widened(one.job, one.first, one.last, (begin, end), beside(one, named).beside)
        found.append(replace(one, first=first, last=last, lost_share=_lost_in(one, first, last)))
    return found


def _lost_in(one: Suspect, first: int, last: int) -> float | None:
    """What a rank loses in a wider stretch, as a share of a step: in the steps beside it, nothing.

    If it does lose time in them, this is less; where they are the most, others delay the job.
    """
    if one.lost_share is None or one.level != "rank":
        return one.lost_share
    return one.lost_share * min(1.0, EDGES * (one.last - one.first + 1) / (last - first + 1))

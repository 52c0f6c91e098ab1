"""Jobs with slow transfers at the same time: which part of the network do all of them share?

One job shows a part by few connections, and several parts explain them equally well. A part that is
slow for several jobs is so at one time, which the lengths of steps show: those of several jobs get
longer at the same moment, or of one, while transfers of others are slow as well. Each connection of
each job is then compared with itself at all other times. The part that explains all of them
together is the culprit, if slow transfers of several jobs cross it. Where a part that only one of
them crosses explains more, the search in that job names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.faults.causes.slow_parts import by_pace, explaining
from llmprism.methods.prism.faults.causes.unexplained import slow_stretches
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.bundles import Bundle, bundles_of
from llmprism.methods.prism.faults.measures.rates import Rates
from llmprism.methods.prism.faults.measures.rejudged import rejudged
from llmprism.methods.prism.faults.measures.series import FEWEST, SHORTEST
from llmprism.methods.prism.faults.measures.tomography import CLOSE
from llmprism.methods.prism.faults.measures.wire_time import LostTime, explained, lost_in
from llmprism.methods.prism.faults.suspects.cost import cost_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools

JOBS = 2  # whose slow transfers cross a part

Measured = Sequence[tuple[JobView, Rates]]


@dataclass(frozen=True)
class Slow:
    """A stretch of longer steps of a job.

    Attributes
    ----------
    begin_ns, end_ns : of its first and last step.
    step_ns : length of one of its steps: the stretch begins and ends no more exactly.
    to_the_end : whether its job ends with it.
    """

    job: JobView
    first: int
    last: int
    begin_ns: int
    end_ns: int
    step_ns: float
    to_the_end: bool

    def together(self, other: Slow) -> bool:
        """Whether both begin at the same moment, and end so unless their job ends before."""
        if other.job is self.job:
            return False
        apart_ns = max(self.step_ns, other.step_ns)
        if abs(self.begin_ns - other.begin_ns) > apart_ns:
            return False
        if self.to_the_end and other.to_the_end:
            return True
        sooner, later = sorted((self, other), key=lambda one: one.end_ns)
        return sooner.to_the_end or later.end_ns - sooner.end_ns <= apart_ns


@dataclass(frozen=True)
class Shown:
    """What a job shows of a time: the steps within it, and its transfers in these.

    Attributes
    ----------
    rates, bundles : compared with all steps at other times.
    """

    job: JobView
    extent: tuple[int, int]
    rates: Rates
    bundles: list[Bundle]
    lost: LostTime

    @property
    def slow_across(self) -> frozenset[str]:
        """The parts that its slow transfers cross."""
        return frozenset().union(*(one.crosses for one in self.bundles if one.slow))


def slow_together(context: Context, measured: Measured) -> Iterator[tuple[Suspect, Rates]]:
    """The part that slow transfers of several jobs share, as a suspect of each of these jobs.

    Each with the rates that show it.
    """
    if len(measured) < JOBS:
        return
    for slow in _together([one for job, _ in measured for one in _slow_stretches(job)]):
        begin_ns, end_ns = _common(slow)
        shown = [one for job, rates in measured if (one := _shown(job, rates, begin_ns, end_ns))]
        for job, rates in measured:
            rates = next((one.rates for one in shown if one.job is job), rates)
            for own in (one for one in slow if one.job is job):
                suspect = _suspect(context, own, rates, shown)
                if suspect is not None:
                    yield suspect, rates


def _suspect(context: Context, own: Slow, rates: Rates, shown: Sequence[Shown]) -> Suspect | None:
    """The part that explains what is slow in several jobs, if some of one job crosses it, too."""
    extent = own.first, own.last
    shared = _shared(shown)
    if not any(shared & crossed for crossed in rates.crosses):
        return None
    every = [one for each in shown for one in each.bundles]
    bundles = [replace(one, crosses=one.crosses & shared) for one in every]
    lost = [each.lost for each in shown if each.job is not own.job]
    lost = [lost_in(rates, *extent), *lost]
    by_time = [part for part in explained(lost) if part.name in shared]
    best, suspect = by_pace(context, own.job, bundles, extent, lost, by_time)
    if suspect is None or not any(best in crossed for crossed in rates.crosses):
        return None
    parts = explaining(every)
    if next(part.score for part in parts if part.name == best) < CLOSE * parts[0].score:
        return None
    jobs = [each.job.name for each in shown if best in each.slow_across]
    return replace(suspect, evidence={**suspect.evidence, "slow_in_jobs": jobs})


def _shared(shown: Sequence[Shown]) -> frozenset[str]:
    """The parts that slow transfers of several jobs cross."""
    count = Counter(part for each in shown for part in each.slow_across)
    return frozenset(part for part, jobs in count.items() if jobs >= JOBS)


def _slow_stretches(job: JobView) -> Iterator[Slow]:
    """The stretches of longer steps of a job that cost it time."""
    for first, last in slow_stretches(job):
        if not cost_of(job, first, last).believed:
            continue
        step_ns = float(np.nanmedian(job.duration_ns[first : last + 1]))
        begin_ns, end_ns = int(job.start_ns[first]), int(job.end_ns[last])
        yield Slow(job, first, last, begin_ns, end_ns, step_ns, last >= job.count - SHORTEST)


def _together(every: Sequence[Slow]) -> list[list[Slow]]:
    """Stretches that are slow together, each in one group, those of most jobs first."""
    found: list[list[Slow]] = []
    groups = [[one, *(other for other in every if one.together(other))] for one in every]
    for group in sorted(groups, key=len, reverse=True):
        if not any(one is other for known in found for one in known for other in group):
            found.append(group)
    return found


def _common(slow: Sequence[Slow]) -> tuple[int, int]:
    """The time in which all of them are slow, or were until their jobs ended."""
    ended = [one.end_ns for one in slow if not one.to_the_end]
    end_ns = min(ended) if ended else max(one.end_ns for one in slow)
    return max(one.begin_ns for one in slow), end_ns


def _shown(job: JobView, rates: Rates, begin_ns: int, end_ns: int) -> Shown | None:
    """What ``job`` shows of a time; None if it has no steps within it, or too few elsewhere."""
    inside = (job.start_ns >= begin_ns) & (job.end_ns <= end_ns)
    healthy = _elsewhere(job, begin_ns, end_ns)
    if not inside.any() or healthy.sum() < FEWEST:
        return None
    at = np.flatnonzero(inside)
    extent = int(at[0]), int(at[-1])
    rates = rejudged(rates, inside, healthy)
    return Shown(job, extent, rates, bundles_of(rates, *extent), lost_in(rates, *extent))


def _elsewhere(job: JobView, begin_ns: int, end_ns: int) -> Bools:
    """Steps of ``job`` that lie before or after a time, without its first one."""
    found: Bools = (job.end_ns <= begin_ns) | (job.start_ns >= end_ns)
    found[0] = False
    return found

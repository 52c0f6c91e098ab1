"""What is worth an alert, and how severe it is: by persistence, confidence and cost.

Only the columns of the table of findings are used, so the policy holds for any method. A finding of
fewer than PERSISTS steps is a *hiccup*: it is counted and shown, and nobody is called. The same
holds for a finding that is more likely wrong than right, that costs less than SHARE of the steps'
time, that a habit of the job explains, or that tells how the job is built and not that something
has changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from llmprism.numerics.arrays import Bools
from llmprism.watch import habits
from llmprism.watch.habits import Lengths
from llmprism.watch.state import Incident, KnownJob
from prism_common.quantities import EVEN

PERSISTS = 3  # steps in a row, or two of which each is half as long again
RETURNS = 3  # runs of slow steps at the same place, of RETURNING steps together
RETURNING = 5
MOSTLY = 3  # stretches of a third of the steps that are known: they may be the usual ones
KNOWN = 10  # steps of a job show what is usual
SHARE = 0.02
"""Of the time of its steps that an incident costs, at least."""
LEAST_GPU_HOURS = {"critical": 0.5, "warning": 0.01}
_GPUS_LOST = {"critical": 8.0, "warning": 1.0}  # in an hour: those of a server, and one
_VARIES = 2.0  # deviations of a step are nothing
_PAUSES = 1.5  # times the longest pause of a habit is no habit
SEVERITIES = ("info", "warning", "critical")

HICCUP = "a hiccup: too few steps"
"""Why an incident is withheld that more of its steps may turn into an alert."""
HABITUAL = "a habit of the job"
STOPS = frozenset({"hang", "crash", "stopped_nic"})
"""Causes of a job that takes no steps."""
STRUCTURAL = frozenset({"uneven_stage", "length_imbalance", "expert_imbalance"})
"""Causes that are how a job divides its work."""


def persists(one: Incident, job: KnownJob, time_ns: int) -> bool:
    """Whether an incident has lasted long enough by the time of the last record."""
    if one.cause in STOPS:
        usual_ns = Lengths.of(job.recent_ns).usual_ns
        lasted_ns = max(one.end_ns, min(time_ns, one.seen_ns)) - one.start_ns
        least_ns = max(PERSISTS * usual_ns, _PAUSES * habits.longest_pause_ns(job))
        return usual_ns > 0 and lasted_ns >= least_ns
    lengths = Lengths.of(job.recent_ns)
    runs: list[Run] = []
    for first, last in one.ranges:
        if _is_usual(lengths, first, last):
            runs.append(Run(last - first + 1))
        else:
            later = last - max(first - 1, int(lengths.step[-1]))
            runs += _runs(one, lengths, (first, last), max(later, 0))
    return _suffice(one, runs)


def is_measured(one: Incident, job: KnownJob, time_ns: int) -> bool:
    """Whether complete steps alone show that an incident persists; no further window has to."""
    if one.cause in STOPS:
        return persists(one, job, time_ns)
    lengths = Lengths.of(job.recent_ns)
    measured = [each for each in one.ranges if not _is_usual(lengths, *each)]
    return _suffice(one, [run for each in measured for run in _runs(one, lengths, each)])


class Run(NamedTuple):
    """Slow steps that follow each other: how many, and how many usual steps the shortest lasts."""

    steps: int
    shortest: float = 1.0


def _suffice(one: Incident, runs: list[Run]) -> bool:
    """Whether slow steps in a row, or in several runs, are more than hiccups."""
    every = sum(run.steps for run in runs)
    if one.cause in STRUCTURAL:  # that of some steps is the luck of their batches
        return every >= KNOWN
    is_long = any(run.steps > 1 and run.steps * max(run.shortest, 1.0) >= PERSISTS for run in runs)
    return is_long or (len(runs) >= RETURNS and every >= RETURNING)


def _runs(
    one: Incident, lengths: Lengths, stretch: tuple[int, int], unmeasured: int = 0
) -> list[Run]:
    """The runs of slow steps in a stretch; those at its end that are not measured yet are slow."""
    inside = (lengths.step >= stretch[0]) & (lengths.step <= stretch[1])
    are_slow = _are_slow(one, lengths)[inside]
    lasts = lengths.length_ns[inside] / max(lengths.usual_ns, 1.0)
    are_slow = np.append(are_slow, np.ones(unmeasured, np.bool_))
    lasts = np.append(lasts, np.ones(unmeasured))
    edges = np.flatnonzero(np.diff(are_slow.astype(np.int8), prepend=0, append=0))
    return [
        Run(end - begin, float(lasts[begin:end].min()))
        for begin, end in edges.reshape(-1, 2).tolist()
    ]


def _is_usual(lengths: Lengths, first: int, last: int) -> bool:
    """Whether a stretch has so many of the measured steps that it may be what is usual."""
    own = (lengths.step >= first) & (lengths.step <= last)
    return not lengths.step.size or MOSTLY * int(own.sum()) >= lengths.step.size


def _are_slow(one: Incident, lengths: Lengths) -> Bools:
    """Which measured steps are slow.

    They cost half of what a step of the incident costs on average, and more than steps vary by; or,
    while it grows, they are clearly longer than usual.
    """
    average_ns = one.cost_ns / 2 / sum(last - first + 1 for first, last in one.ranges)
    least_ns = max(average_ns, _VARIES * lengths.deviation_ns)
    are_slow: Bools = lengths.length_ns - lengths.usual_ns >= min(least_ns, lengths.clear_ns)
    return are_slow


def withheld(one: Incident, job: KnownJob, time_ns: int) -> str:
    """Why an incident is not announced; empty if it may be."""
    if not job.recent_ns:
        return "the job has taken no steps yet"
    if one.cause in STOPS and one.start_ns < job.since_ns:
        return "the job had not begun"
    if one.confidence < EVEN:
        return "more likely wrong than right"
    if one.cause not in STOPS and Lengths.of(job.recent_ns).step.size < KNOWN:
        return "what is usual is not known yet"
    if not persists(one, job, time_ns):
        return HICCUP
    if one.cause in STOPS:
        return ""
    if _is_habitual(one, job):
        return HABITUAL
    if one.cause in STRUCTURAL and one.start_ns <= job.since_ns + _young_ns(job):
        return "how the job is built"
    return "" if share(one) >= SHARE else "costs too little"


def _is_habitual(one: Incident, job: KnownJob) -> bool:
    """Whether habits explain all stretches of an incident; each costs as much as its steps."""
    steps = sum(last - first + 1 for first, last in one.ranges)
    return all(
        habits.is_habitual(job, first, last, one.cost_ns * (last - first + 1) / steps)
        for first, last in one.ranges
    )


def _young_ns(job: KnownJob) -> float:
    """The time of the first steps of a job [ns]."""
    return PERSISTS * Lengths.of(job.recent_ns).usual_ns


def share(one: Incident) -> float:
    """Share of the time of an incident that it costs its job."""
    return one.cost_ns / max(one.end_ns - one.start_ns, 1)


def severity(one: Incident) -> str:
    """The severity that an incident has now."""
    lost = share(one) * one.gpus
    for name, least in _GPUS_LOST.items():
        if lost >= least and one.gpu_hours >= LEAST_GPU_HOURS[name]:
            return name
    return "info"


def is_worse(severity: str, than: str) -> bool:
    """Whether a severity is higher than another.

    >>> is_worse("critical", than="warning"), is_worse("info", than="info")
    (True, False)
    """
    return SEVERITIES.index(severity) > SEVERITIES.index(than)

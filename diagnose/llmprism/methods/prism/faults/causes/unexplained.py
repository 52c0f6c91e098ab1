"""Steps that are longer for a while, although nothing that was looked at explains them.

Telemetry that merges, samples or loses records still shows how long steps last. Where they get
longer and stay so, something is wrong, whether or not a rank or a link stands apart.

A part that is slow makes every step longer by about as much. Work that is unevenly divided is
divided again in each step, so these steps differ more than healthy ones do, or ranks are late in
turn: then this is the cause. Of a job with experts, the times between its collectives do. Where a
rank loses more in these steps than in all others (:mod:`~.late_in_stretch`), the finding names it.
Where slow transfers were seen, and many parts of the network explain them equally well, it names
them all, with little confidence. Otherwise it names the job, and says that the cause is unknown.
Checkpoints and evaluations lengthen steps, too, at regular intervals: without that.

A stretch may last to the end, and its steps may vary much more than those before. So steps are
also compared with all steps before them. Where no step alone is long enough to be out, two levels
of all steps show a small change (:mod:`~.two_levels`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.faults.causes.imbalance import (
    OTHER,
    divided_again,
    late_in_turns,
    likelier_imbalance,
)
from llmprism.methods.prism.faults.causes.late_in_stretch import late_in_stretch
from llmprism.methods.prism.faults.causes.partners import doubted, joined
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.series import DEVIATIONS, FEWEST, judged, stretches
from llmprism.methods.prism.faults.measures.two_levels import upper_run
from llmprism.methods.prism.faults.suspects.cost import cost_of
from llmprism.methods.prism.faults.suspects.irregular import irregular
from llmprism.methods.prism.faults.suspects.recurring import without_recurring_ns
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import deviation, finite_median

LEAST = 0.05  # of a step
LASTING = 4  # steps; checkpoints and evaluations lengthen single ones
WARM_UP = 6  # steps at the begin in which a job may still be slow without a fault
NEARLY_ALL = 0.9  # of the steps to the end, or of an attempt
SURE = 0.5  # confidence
GUESSED = 0.4  # confidence where only the lengths of steps show the cause
LEAST_GUESS = 0.2  # confidence of a guess that says more than that the cause is unknown
FAR_LESS = 0.1  # of what the longest steps are longer: the others have another reason
MOSTLY = 0.5  # of the steps of a stretch in which transfers were slow


def unexplained(
    context: Context, named: Sequence[Suspect], guesses: Sequence[Suspect] = ()
) -> Iterator[Suspect]:
    """Suspects for the lasting stretches of slow steps that none of the ``named`` ones touches.

    ``guesses`` are suspects of little confidence.
    """
    for job in context.jobs:
        own = [one for one in named if one.job is job]
        for first, last in slow_stretches(job):
            touched = any(one.first <= last and first <= one.last for one in own)
            if not touched and not _is_an_attempt(job, first, last):
                late = joined(context, [*late_in_stretch(context, job, first, last)])
                guess = next((one for one in guesses if _covers(one, job, first, last)), None)
                yield from doubted(late) or [guess or _of_job(context, job, first, last)]


def slow_stretches(job: JobView) -> list[tuple[int, int]]:
    """First and last step of every stretch of longer steps.

    What is left of a checkpoint without what checkpoints usually take shows no level: they vary.
    """
    every_ns = job.duration_ns
    duration_ns = without_recurring_ns(every_ns)
    level_ns = np.where(duration_ns < every_ns, np.nan, every_ns)
    out = judged(duration_ns[None, :], LEAST).out[0]
    found = [
        (first, last)
        for first, last in stretches(out)
        if out[first : last + 1].sum() >= LASTING and not is_warm_up(first, last)
    ]
    run = upper_run(level_ns, job.tick_ns)
    for whole in (*_to_the_end(duration_ns), *([] if run is None else [run])):
        if all(_longest_of(duration_ns, one, whole) for one in found):
            return [whole]
    return found


def _longest_of(duration_ns: Floats, one: tuple[int, int], lasting: tuple[int, int]) -> bool:
    """Whether a stretch has the longest steps of a ``lasting`` one, and is none of its own.

    If it is, the rest of the lasting one is longer than before by far less.
    """
    first, (begin, end) = one[0], lasting
    normal = finite_median(duration_ns[:begin])
    own = duration_ns[first : one[1] + 1]
    rest = np.concatenate([duration_ns[begin:first], duration_ns[one[1] + 1 : end + 1]])
    longer, others = (finite_median(steps) - normal for steps in (own, rest))
    held = begin <= first and one[1] <= end
    return held and (rest.size == 0 or others >= FAR_LESS * longer)


def _to_the_end(duration_ns: Floats) -> list[tuple[int, int]]:
    """The stretch from some step to the last, of which nearly all are longer than before."""
    for first in range(FEWEST, duration_ns.size - LASTING):
        before, after = duration_ns[:first], duration_ns[first:]
        normal = finite_median(before)
        spread = deviation(before)
        longer = after > normal + max(DEVIATIONS * spread, LEAST * normal)
        if longer[0] and longer.mean() >= NEARLY_ALL:
            return [(first, duration_ns.size - 1)]
    return []


def is_warm_up(first: int, last: int) -> bool:
    """Whether these are the first steps of a job, which may be slow without a fault."""
    return first == 0 and last < WARM_UP


def _is_an_attempt(job: JobView, first: int, last: int) -> bool:
    """Whether these are nearly all steps between two restarts.

    A job may go on elsewhere or over other paths, at another pace. The first step of an attempt has
    no step before it.
    """
    begins = job.phases.first_of_epoch.tolist()
    attempts = zip(begins, [*begins[1:], job.duration_ns.size], strict=True)
    whole = any(
        first >= begin
        and last < after
        and last + 1 - max(first, begin + 1) >= NEARLY_ALL * (after - begin - 1)
        for begin, after in attempts
    )
    return len(begins) > 1 and whole


def _covers(one: Suspect, job: JobView, first: int, last: int) -> bool:
    """Whether a guess names a part that was slow in most of the steps."""
    common = min(one.last, last) - max(one.first, first) + 1
    known = one.confidence >= LEAST_GUESS and one.culprit_kind != "job"
    return one.job is job and known and common > MOSTLY * (last - first + 1)


def _of_job(context: Context, job: JobView, first: int, last: int) -> Suspect:
    """The job as a whole: its work is unevenly divided, or the cause is unknown."""
    one = _suspect(job, first, last)
    cause = likelier_imbalance(context, one.job)
    if cause == "expert_imbalance":  # pauses make the steps of such a job irregular as well
        uneven = divided_again(context, job, first, last)
    else:
        uneven = irregular(job, first, last)
    if not (uneven or late_in_turns(context, job, (first, last), one.longer_share)):
        return one
    evidence = {"or_causes": [OTHER[cause], "unknown"]}
    return replace(one, cause=cause, confidence=GUESSED, evidence=evidence)


def _suspect(job: JobView, first: int, last: int) -> Suspect:
    cost = cost_of(job, first, last)
    lost = max(0.0, cost.share) / (1 + max(0.0, cost.share))
    return Suspect(
        job, "group", "slow_steps", "unknown", "job", job.name, first, last, lost, SURE, lost=cost
    )

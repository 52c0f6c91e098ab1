"""The rank, or stage, that loses time in a stretch of steps that is known to be slow.

A rank that loses little, or not as much in each step, may not stand out from its own noise. But
where the lengths of steps show that a stretch is slow, its losses in the stretch can be compared
with those in all other steps: if nearly all of the ones are larger than nearly all of the others,
by a good part of what the steps are longer, then it is the reason. The test is that of Mann and
Whitney (1947), which assumes no distribution.

Work that is unevenly divided delays a rank in some steps of the stretch only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.faults.causes.late_ranks import SYMPTOM as LATE
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.lateness.own_time import lateness_ns, lost_share
from llmprism.methods.prism.faults.suspects.cost import cost_of
from llmprism.methods.prism.faults.suspects.ranks import Slowness
from llmprism.methods.prism.faults.suspects.stages import ALL, stages_and_ranks
from llmprism.methods.prism.faults.suspects.suspects import OWN_PART, Suspect
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import deviation, nanmedian

DEVIATIONS = 3.0  # of the sum of ranks: one of 740 healthy ranks exceeds them by chance
OF_MOST, MOSTLY = 0.8, 0.75  # of the largest loss of a step, and of the steps: a rank is the reason
NEARLY_ALL = 0.9  # ... of the steps, for a stage: its layers take longer in each of them
MOST = 0.5  # share of the ranks; if more are late, nobody is
FEWEST = 4  # steps in the stretch, and outside of it


def late_in_stretch(context: Context, job: JobView, first: int, last: int) -> Iterator[Suspect]:
    """Bring forward the ranks that lose time in steps ``first`` to ``last``."""
    lost = _lost(context, job)
    if lost is None:
        return
    lost = lost - nanmedian(np.delete(lost, np.s_[first : last + 1], axis=1), axis=1)[:, None]
    inside, outside = lost[:, first : last + 1], np.delete(lost, np.s_[first : last + 1], axis=1)
    share = cost_of(job, first, last).share
    late = np.nan_to_num(nanmedian(inside, axis=1)) >= OWN_PART * share
    late &= [_larger(*both) > DEVIATIONS for both in zip(inside, outside, strict=True)]
    stage = _whole_stages(job, late)
    late &= _most_late(inside, stage) >= np.where(stage >= 0, NEARLY_ALL, MOSTLY)
    if not late.any() or late.mean() > MOST:
        return
    slow = np.zeros(lost.shape, np.bool_)
    slow[np.flatnonzero(late), first : last + 1] = True
    noise = np.array([deviation(one[np.isfinite(one)]) for one in outside])
    symptom = "slow_passes" if job.pipelines.length > 1 else LATE
    seen = Slowness(symptom, 1 + lost, noise, slow, lost, lost)
    yield from (one for one in stages_and_ranks(context, job, seen) if one.is_believed)


def _whole_stages(job: JobView, late: Bools) -> Ints:
    """The stage of each rank whose stage is late as a whole; a number of its own for all others."""
    found = -1 - np.arange(late.size)
    for stage in range(job.pipelines.length if job.pipelines.length > 1 else 0):
        rows = job.pipelines.stage == stage
        if rows.any() and late[rows].mean() >= ALL:
            found[rows] = stage
    return found


def _lost(context: Context, job: JobView) -> Floats | None:
    """What each rank loses in each step, as a share of a step; None where nothing shows it."""
    if not job.period_ns > 0:
        return None
    if job.pipelines.length > 1:
        return lost_share(context, job, cautious=True)
    return lateness_ns(context, job, every=True) / job.period_ns


def _most_late(lost: Floats, group: Ints) -> Floats:
    """Share of the steps in which a rank loses nearly as much as anybody outside its ``group``."""
    known = np.nan_to_num(lost)
    beside = [known[group != own].max(axis=0, initial=0.0) for own in group]
    share: Floats = (known >= OF_MOST * np.array(beside)).mean(axis=1)
    return share


def _larger(inside: Floats, outside: Floats) -> float:
    """By how many deviations of chance the values ``inside`` are larger than those ``outside``."""
    inside, outside = (one[np.isfinite(one)] for one in (inside, outside))
    n, m = inside.size, outside.size
    if min(n, m) < FEWEST:
        return 0.0
    larger: Ints = (inside[:, None] > outside).sum() + (inside[:, None] == outside).sum() / 2
    return float((larger - n * m / 2) / np.sqrt(n * m * (n + m + 1) / 12))

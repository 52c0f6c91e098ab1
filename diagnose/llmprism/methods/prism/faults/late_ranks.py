"""Ranks that come late to their collectives, in jobs without a pipeline.

A hop of a collective begins when both of its ends are there. So all hops of a late rank begin
late, while each of its neighbours has another hop that began in time. The earliest begin of
any hop of a rank is the latest moment at which the rank can have arrived. A rank that is late
by this measure, compared with the others of its group, is not one that waits.

In a group of two there is one hop for both, and flows cannot tell who was late.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.ranks import Slowness, suspects_of
from llmprism.methods.prism.faults.series import judged
from llmprism.methods.prism.faults.suspects import Suspect
from llmprism.methods.prism.phases import MISSING, nanmedian
from llmprism.numerics.arrays import Bools, Floats

LEAST = 0.01  # of a step; less does not matter
MOST = 0.5  # share of the ranks; if more are late, nobody is
SMALLEST = 3  # members of a group that show a late one


def late_ranks(context: Context) -> Iterator[Suspect]:
    """Bring forward ranks whose collectives begin later than those of their group."""
    for job in context.jobs:
        if job.pipelines.length == 1 and job.period_ns > 0:
            late = lateness_ns(job) / job.period_ns
            own = judged(1 + late, LEAST)
            out: Bools = own.out & (own.out.mean(axis=0) <= MOST)[None, :]
            lost = np.maximum(own.ratio - 1, 0.0)
            seen = Slowness("late_to_collectives", 1 + lost, own.noise, out)
            yield from suspects_of(context, job, seen)


def lateness_ns(job: JobView) -> Floats:
    """By how much each endpoint is later than the median of its group, shape (endpoints, steps)."""
    moments, group = job.phases.moments["dp"], job.phases.dp_group
    begin = np.where(moments.start_ns == MISSING, np.nan, moments.start_ns - job.ranks.origin_ns)
    late = np.full(begin.shape, np.nan)
    for one in np.unique(group[group >= 0]).tolist():
        rows = np.flatnonzero(group == one)
        if rows.size >= SMALLEST:
            late[rows] = begin[rows] - nanmedian(begin[rows], axis=0)
    return late

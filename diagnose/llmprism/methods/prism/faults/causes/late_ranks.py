"""Ranks that come late to their collectives, in jobs without a pipeline.

A hop of a collective begins when both of its ends are there. So all hops of a late rank begin
late, while each of its neighbours has another hop that began in time. The earliest begin of
any hop of a rank is the latest moment at which the rank can have arrived. A rank that is late
by this measure, compared with the others of its group, is not one that waits.

In a group of two there is one hop for both, and flows cannot tell who was late.

Where work is unevenly divided, some rank is late in several steps by chance. Then the steps differ
in length, and other ranks are late in the others of them. So of steps that differ, a slow rank has
to explain most of the time that they take longer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.lateness.own_time import lateness_ns
from llmprism.methods.prism.faults.measures.rates import ROUNDING
from llmprism.methods.prism.faults.measures.series import judged
from llmprism.methods.prism.faults.rings.rings import usual_delay_ns
from llmprism.methods.prism.faults.suspects.cost import cost_of, widened
from llmprism.methods.prism.faults.suspects.irregular import irregular
from llmprism.methods.prism.faults.suspects.ranks import Slowness, suspects_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools, Floats

SYMPTOM = "late_to_collectives"
LEAST = 0.01  # of a step; less does not matter
MOST = 0.5  # share of the ranks; if more are late, nobody is
MOSTLY = 0.5  # of what unlike steps are longer: what a slow rank explains


def late_ranks(context: Context) -> Iterator[Suspect]:
    """Bring forward ranks whose collectives begin later than those of their group."""
    for job in context.jobs:
        if job.pipelines.length == 1 and job.period_ns > 0:
            late = lateness_ns(context, job, every=True) / job.period_ns
            tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
            finest = np.fmax(ROUNDING * tick_ns, usual_delay_ns(context, job)) / job.period_ns
            own = judged(1 + late, LEAST, finest, peers=True, levels=True)
            out: Bools = own.lasting & (own.out.mean(axis=0) <= MOST)[None, :]
            lost = np.maximum(own.ratio - 1, 0.0)
            seen = Slowness(SYMPTOM, 1 + lost, own.noise, out, late, late)
            for one in suspects_of(context, job, seen):
                if not _by_chance(context, job, one, late):
                    yield one


def _by_chance(context: Context, job: JobView, one: Suspect, late: Floats) -> bool:
    """Whether a rank explains too little of a stretch of unlike steps.

    ``late`` is the lateness of each endpoint, as a share of a step.
    """
    first, last = widened(job, one.first, one.last, (0, job.count - 1))
    if not irregular(job, first, last):
        return False
    inside = slice(first, last + 1)
    longer_ns = job.between_ends_ns[inside] - cost_of(job, first, last).normal_ns
    longer = np.maximum(np.nan_to_num(longer_ns), 0) / job.period_ns
    named = [context.topology.codes[name] for name in one.evidence["one_of"]]
    rows = np.isin(job.phases.endpoints, named)
    own = np.clip(np.nan_to_num(late[rows, inside]).max(axis=0), 0.0, longer)
    return bool(own.sum() < MOSTLY * longer.sum())

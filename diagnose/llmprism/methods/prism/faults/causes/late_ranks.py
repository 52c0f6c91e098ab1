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

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.faults.context import Context
from llmprism.methods.prism.faults.lateness.own_time import lateness_ns
from llmprism.methods.prism.faults.measures.rates import ROUNDING
from llmprism.methods.prism.faults.measures.series import judged
from llmprism.methods.prism.faults.rings.rings import usual_delay_ns
from llmprism.methods.prism.faults.suspects.ranks import Slowness, suspects_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools

SYMPTOM = "late_to_collectives"
LEAST = 0.01  # of a step; less does not matter
MOST = 0.5  # share of the ranks; if more are late, nobody is


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
            yield from suspects_of(context, job, seen)

"""By how much the begins of a step's collectives vary from step to step.

The gradients of a step come as its last backward passes end, those of each layer after those of the
layer behind it. So collectives begin after each other as those passes take. A part that is slow
makes the passes longer by as much in each step. Where each layer of each micro-batch divides its
work again, as experts do, the times between the begins differ from step to step.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import finite_median, nanmedian, row_deviations

MORE = 3.0  # times as much: passes of a slow part that take f times as long vary f times as much
OF_LONGER = 0.002  # of what steps are longer: one of 64 micro-batches varies by an eighth of its
FEWEST = 6  # steps in the stretch, and outside of it, that show how much begins vary


def vary_more(context: Context, job: JobView, first: int, last: int) -> bool:
    """Whether begins vary far more in steps ``first`` to ``last`` than in all others.

    Those of most connections, and by enough for what the steps are longer.
    """
    begins = _begins_ns(context, job)
    inside, outside = begins[:, first : last + 1], np.delete(begins, np.s_[first : last + 1], 1)
    enough = [np.isfinite(one).sum(axis=1) >= FEWEST for one in (inside, outside)]
    inside, outside = (one[enough[0] & enough[1]] for one in (inside, outside))
    if not len(inside):
        return False
    tick_ns = float(clock_tick_ns(context.flows.start_ns, context.flows.end_ns))
    usual_ns, own_ns = np.maximum(row_deviations(outside), tick_ns), row_deviations(inside)
    length = job.duration_ns
    longer_ns = finite_median(length[first : last + 1])
    longer_ns -= finite_median(np.delete(length, np.s_[first : last + 1]))
    enough_ns = np.maximum(MORE * usual_ns, OF_LONGER * longer_ns)
    return bool(np.median(own_ns - enough_ns) > 0)


@measured_once
def _begins_ns(context: Context, job: JobView) -> Floats:
    """When each data-parallel connection begins in each step, after the middle one of them [ns]."""
    found = [np.empty((0, job.count))]
    for part in job.phases.classes:
        if part.kind != "dp":
            continue
        known, cell = part.cells(context.connections, job.count)
        begin = np.full(part.one.connections.size * job.count, np.inf)
        start_ns = context.flows.start_ns[part.one.traffic.row[known]] - job.ranks.origin_ns
        np.minimum.at(begin, cell, start_ns.astype(np.float64))
        found.append(np.where(np.isinf(begin), np.nan, begin).reshape(-1, job.count))
    every = np.concatenate(found)
    if not len(every):
        return every
    after: Floats = every - nanmedian(every, axis=0)[None]
    return after

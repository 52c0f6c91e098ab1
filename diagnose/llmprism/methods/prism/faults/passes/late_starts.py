"""First stages of pipelines that begin a step late: for a data loader, or a pause between steps.

The first activation of a step waits for no message, so no pass shows what its sender lost before.
The time since the sender finished the step before does. Replicas begin a step together, so a
checkpoint or the host work of a step delays all of them: what counts is the time beyond that of the
other replicas. It varies as host work does, so only what stands out from that is lost time.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.series import healthy, judged
from llmprism.methods.prism.faults.passes.edges import first_activations_ns
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import nanmedian

LEAST = 0.02  # of a step
SEVERAL = 3  # replicas, of which the middle one shows when a step begins


def lost_at_start_ns(context: Context, job: JobView) -> Floats:
    """Time that each endpoint loses before it sends its first activation, (endpoints, steps) [ns].

    Zero where it does not stand out, and for all that are not in a first stage.
    """
    lost = np.zeros((job.phases.endpoints.size, job.count))
    rows = np.flatnonzero(job.pipelines.stage == 0)
    if rows.size < 2 or not job.period_ns > 0:
        return lost
    sent, end = first_activations_ns(context, job)[rows], job.ranks.end[rows]
    rest = np.full(sent.shape, np.nan)
    rest[:, 1:] = sent[:, 1:] - end[:, :-1]
    rest[:, job.phases.first_of_epoch] = np.nan
    with np.errstate(invalid="ignore"):
        others = nanmedian(rest, axis=0) if rows.size >= SEVERAL else np.fmin.reduce(rest, axis=0)
    late = (rest - others) / job.period_ns
    usual = healthy(late)[:, None]
    out = judged(1 + late - usual, LEAST, peers=True).out
    lost[rows] = np.where(out, late - usual, 0.0) * job.period_ns
    return lost

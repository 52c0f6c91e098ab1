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

LEAST = 0.02  # of a step


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
    late = (rest - in_time(rest)) / job.period_ns
    usual = healthy(late)[:, None]
    out = judged(1 + late - usual, LEAST, peers=True).out
    lost[rows] = np.where(out, late - usual, 0.0) * job.period_ns
    return lost


def in_time(rest: Floats) -> Floats:
    """The middle rank of each step, of two the earlier one, shape (steps,).

    Half of the ranks may be those of one late replica.
    """
    middle = np.maximum(np.isfinite(rest).sum(axis=0) - 1, 0) // 2
    found: Floats = np.take_along_axis(np.sort(rest, axis=0), middle[None, :], axis=0)[0]
    return found

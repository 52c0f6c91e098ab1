"""Ranks of pipelines that begin a step late: for a data loader, or a pause between steps.

The first activation of a step waits for no message, so no pass shows what its sender lost before.
The time since the sender finished the step before does. So it does in a later stage that ends a
step last: when its first input comes, it has its update and its host work to do.

Replicas begin a step together, so a checkpoint or the host work of a step delays all of them: what
counts is the time beyond that of the other replicas. It varies as host work does, so only what
stands out from that is lost time.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.series import healthy, judged
from llmprism.methods.prism.faults.passes.edges import first_messages_ns
from llmprism.methods.prism.faults.passes.passes import step_before_ended
from llmprism.numerics.arrays import Bools, Floats

LEAST = 0.02  # of a step
SEVERAL = 3  # ranks of a later stage: of two that share hosts with others, one is often later


def lost_at_start_ns(context: Context, job: JobView, shown: Bools) -> Floats:
    """Time that each endpoint loses before it sends its first message, (endpoints, steps) [ns].

    Zero where it does not stand out, and where its first pass is ``shown`` by itself.
    """
    lost = np.zeros((job.phases.endpoints.size, job.count))
    if not job.period_ns > 0:
        return lost
    sent, got = first_messages_ns(context, job)
    for stage in range(max(job.pipelines.length, 1)):
        rows = np.flatnonzero(job.pipelines.stage == stage)
        if rows.size >= (SEVERAL if stage else 2):
            begun = np.fmax(step_before_ended(job)[rows], got[rows])
            lost[rows] = _beyond_others(job, sent[rows] - begun)
    lost[shown] = 0.0
    return lost


def _beyond_others(job: JobView, rest: Floats) -> Floats:
    """What stands out of the time that ranks of one stage take until their first message [ns]."""
    late = (rest - in_time(rest)) / job.period_ns
    usual = healthy(late)[:, None]
    out = judged(1 + late - usual, LEAST, peers=True).out
    return np.where(out, late - usual, 0.0) * job.period_ns


def in_time(rest: Floats) -> Floats:
    """The middle rank of each step, of two the earlier one, shape (steps,).

    Half of the ranks may be those of one late replica.
    """
    middle = np.maximum(np.isfinite(rest).sum(axis=0) - 1, 0) // 2
    found: Floats = np.take_along_axis(np.sort(rest, axis=0), middle[None, :], axis=0)[0]
    return found

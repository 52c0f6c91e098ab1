"""When the NICs of a job send something to servers that are none of its own, as at checkpoints.

Such bytes share the NIC with those of the job, so its transfers are slower meanwhile, in each
checkpoint again. That is how the job works, and no fault. What a NIC sends while its job computes
slows nothing.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.parameters import SMALL
from llmprism.numerics.arrays import Bools, Floats


@measured_once
def saving(context: Context, job: JobView) -> Bools:
    """In which steps each address sends in bulk to others while it sends for ``job``.

    Shape (addresses, steps).
    """
    flows, servers = context.flows, context.topology.servers
    begin_ns, end_ns, usual = _sending(context, job)
    own = np.isin(servers, np.unique(servers[job.phases.endpoints]))
    rows = np.flatnonzero(own[flows.src] & ~own[flows.dst])
    sent = np.zeros_like(begin_ns)
    for step in range(job.count):
        from_ns, until_ns = begin_ns[flows.src[rows], step], end_ns[flows.src[rows], step]
        since_ns = np.maximum(flows.start_ns[rows], from_ns)
        both_ns = np.minimum(flows.end_ns[rows], until_ns) - since_ns
        share = np.maximum(both_ns, 0) / np.maximum(flows.lengths_ns(rows), 1)
        np.add.at(sent[:, step], flows.src[rows], share * flows.bytes[rows])
    return np.asarray(sent > SMALL * usual)


def saving_steps(context: Context, job: JobView) -> Bools:
    """In which steps any NIC of a job does, shape (steps,)."""
    return np.asarray(saving(context, job)[job.phases.endpoints].any(axis=0))


def _sending(context: Context, job: JobView) -> tuple[Floats, Floats, float]:
    """From when until when each address sends for ``job``, (addresses, steps); bytes in a step.

    These are the mean of the busiest address.
    """
    flows = context.flows
    shape = len(flows.addresses), max(job.count, 1)
    begin_ns, end_ns, sent = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape[0])
    for part in job.phases.classes:
        known, cell = part.cells(context.connections, job.count)
        row = part.one.traffic.row[known]
        at = flows.src[row].astype(np.int64) * shape[1] + cell % job.count
        np.minimum.at(begin_ns.ravel(), at, flows.start_ns[row].astype(np.float64))
        np.maximum.at(end_ns.ravel(), at, flows.end_ns[row].astype(np.float64))
        sent += np.bincount(flows.src[row], flows.bytes[row], shape[0])
    return begin_ns, end_ns, float(sent.max(initial=0.0)) / shape[1]

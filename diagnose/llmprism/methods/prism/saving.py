"""When the NICs of a job send something to servers that are none of its own, as at checkpoints.

Such bytes share the NIC with those of the job, so its transfers are slower meanwhile, in each
checkpoint again. That is how the job works, and no fault.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.numerics.arrays import Bools

BULK = 0.1  # of what the busiest NIC of the job moves in a step


@measured_once
def saving(context: Context, job: JobView) -> Bools:
    """In which steps each address of ``job`` sends in bulk to others, (addresses, steps)."""
    flows, servers = context.flows, context.topology.servers
    count = len(flows.addresses)
    busy = np.zeros((count, max(job.count, 1)), np.bool_)
    own = np.isin(servers, np.unique(servers[job.phases.endpoints]))
    rows = np.flatnonzero(own[flows.src] & ~own[flows.dst])
    ends_ns = np.maximum.accumulate(job.end_ns)
    first, last = (
        np.searchsorted(ends_ns, at_ns[rows]) for at_ns in (flows.start_ns, flows.end_ns)
    )
    known = first < job.count
    rows, first, last = rows[known], first[known], np.minimum(last[known], job.count - 1)
    sent = np.zeros_like(busy, np.float64)
    for step in range(int((last - first).max(initial=-1)) + 1):
        inside = first + step <= last
        share = flows.bytes[rows[inside]] / (last - first + 1)[inside]
        np.add.at(sent, (flows.src[rows[inside]], (first + step)[inside]), share)
    return np.asarray(sent > BULK * _usual(context, job))


def _usual(context: Context, job: JobView) -> float:
    """Bytes that the busiest NIC of ``job`` sends in a step, mean."""
    rows = np.concatenate([part.one.traffic.row for part in job.phases.classes])
    sent = np.bincount(context.flows.src[rows], context.flows.bytes[rows])
    return float(sent.max(initial=0.0)) / max(job.count, 1)

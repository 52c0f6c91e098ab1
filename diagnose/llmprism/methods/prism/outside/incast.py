"""Traffic of others that several servers send to one NIC of a job: what meets it waits.

Its records are there to be seen. The connections of a job carry something in every step; these
carry nothing before they begin, and nothing after they end. How long the NIC is busy with them is
what their bytes take at the speed of its link. That is what they can cost the job at most, and
so a NIC is accused only if it is a good part of what the steps are longer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.alike import links_of
from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.explanation import Explanation
from llmprism.methods.prism.links import parts_of
from llmprism.methods.prism.parameters import LEAST_COST, QUARTER, SURE
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, by_parts

SYMPTOM = "other_traffic"
SENDERS = 2  # one alone is a transfer, and no burst
FAST = 0.95  # quantile of the speeds of records: merged ones are slower than the link


def incast(context: Context) -> Iterator[Explanation]:
    """Yield NICs that receive bursts of traffic that is no job's, for each job that it meets."""
    flows, servers = context.flows, context.topology.servers
    for job in [one for one in context.jobs if one.count]:
        rows, step = _others(context, job)
        speed = link_speed(context, job)
        for end in np.unique(flows.dst[rows]).tolist() if speed > 0 else ():
            here = flows.dst[rows] == end
            busy_ns = np.bincount(step[here], flows.bytes[rows[here]] / speed, job.count)
            busy = busy_ns / max(job.period_ns, 1.0)
            at = np.flatnonzero(busy > LEAST_COST)
            inside = rows[here & np.isin(step, at)]
            senders = np.unique(servers[flows.src[inside]]).size
            if senders < SENDERS:
                continue
            known = {"senders": senders, "bytes_of_others": int(flows.bytes[inside].sum())}
            yield Explanation(
                job, "network", SYMPTOM, "incast_burst", "address", context.topology.addresses[end],
                int(at[0]), int(at[-1]), min(float(busy[at].mean()), 1.0), SURE, known,
                unaffected=np.flatnonzero(busy <= LEAST_COST),
            )  # fmt: skip


def _others(context: Context, job: JobView) -> tuple[Codes, Codes]:
    """Rows that endpoints of jobs receive from connections of none; and the step of ``job``.

    Those that its own endpoints receive, and those that cross its links on their way.
    """
    flows, connections = context.flows, context.connections
    inside, own = np.zeros((2, len(flows.addresses)), np.bool_)
    inside[np.concatenate([one.phases.endpoints for one in context.jobs])] = True
    own[job.phases.endpoints] = True
    chosen = inside[connections.dst] & connections.carries & ~_of_jobs(context, job)
    rows = np.flatnonzero(chosen[connections.of_row]).astype(np.int32)
    links, meets = links_of(context, job), np.zeros(len(flows.paths) + 1, np.bool_)
    used = np.flatnonzero(np.bincount(flows.path[rows] + 1)[1:])  # an unknown path is the last one
    meets[used] = [not links.isdisjoint(parts_of(flows.paths[code])) for code in used.tolist()]
    rows = rows[own[flows.dst[rows]] | meets[flows.path[rows]]]
    step = by_parts(lambda part: _step_at(job, flows.start_ns[part]), rows)
    rows, step = rows[step < job.count], step[step < job.count]
    used = np.zeros((len(connections), job.count), np.bool_)
    used[connections.of_row[rows], step] = True
    sometimes = (~used).mean(axis=1) >= QUARTER
    kept = sometimes[connections.of_row[rows]]
    return rows[kept], step[kept]


def _step_at(job: JobView, start_ns: Ints) -> Codes:
    """The step of ``job`` in which each time lies; the number of steps beyond the last."""
    return np.searchsorted(job.end_ns, start_ns).astype(np.int32)


def _of_jobs(context: Context, job: JobView) -> Bools:
    """Connections of ``job``, and those of other jobs.

    In a job that never began again, all connections of its own carry something in every step.
    """
    known = np.zeros(len(context.connections), np.bool_)
    restarted = job.phases.first_of_epoch.size > 1
    for other in context.jobs:
        if other.count and (other is not job or restarted):
            for part in other.phases.classes:
                known[part.one.connections] = True
    return known


@measured_once
def link_speed(context: Context, job: JobView) -> float:
    """Bytes in a nanosecond of the fastest transfers of ``job``."""
    rows = np.concatenate([part.one.traffic.row for part in job.phases.classes])
    speed = by_parts(lambda part: _speeds(context.flows, part), rows)
    return float(np.quantile(speed, FAST, overwrite_input=True)) if speed.size else 0.0


def _speeds(flows: FlowTable, rows: Codes) -> Floats:
    """Bytes in a nanosecond of each record that takes time."""
    lasted_ns = flows.lengths_ns(rows)
    known = lasted_ns > 0
    return np.asarray(flows.bytes[rows[known]] / lasted_ns[known])

"""Ranks that compute slowly, seen where a pipeline shows how long each stage works.

All ranks of a tensor-parallel group are as slow as the slowest of them, and flows show no
traffic between them: where the NICs of a server are slow together, the server is named.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.passes import Passes, passes_of
from llmprism.methods.prism.faults.rates import slow_conversations_at
from llmprism.methods.prism.faults.series import Judged, healthy, judged, stretches
from llmprism.methods.prism.faults.suspects import Suspect
from llmprism.methods.prism.phases import nanmedian
from llmprism.numerics.arrays import Bools, Floats, Ints

LEAST = 0.03  # less than this is no slow rank but the spread of healthy ones
MOST = 0.5  # share of the ranks; if more are slow, it is the job's work that changed


def slow_compute(context: Context) -> Iterator[Suspect]:
    """Bring forward ranks whose passes take longer than in their healthy steps."""
    for job in context.jobs:
        passes = passes_of(context, job)
        if passes is not None:
            own = judged(_relative(passes.work_ns), LEAST)
            yield from _suspects(context, job, own, _slow(context, job, passes, own))


def _relative(work: Floats) -> Floats:
    """Work in each step over that of healthy steps, median over the step's messages."""
    endpoints, steps, messages = work.shape
    by_message = work.transpose(0, 2, 1).reshape(-1, steps)
    ratio = by_message / healthy(by_message)[:, None]
    return nanmedian(ratio.reshape(endpoints, messages, steps), axis=1)


def _slow(context: Context, job: JobView, passes: Passes, own: Judged) -> Bools:
    """Steps in which each endpoint itself is slow: not its receiver, nor its transfers."""
    slow: Bools = own.out & (own.out.mean(axis=0) <= MOST)[None, :]
    rows = np.flatnonzero(slow.any(axis=1))
    if rows.size:
        slow[rows] &= judged(_relative(passes.since_receiver_ns(rows)), LEAST).out
        slow[rows] &= ~slow_conversations_at(context, job)[rows]
    return slow


def _suspects(context: Context, job: JobView, own: Judged, slow: Bools) -> Iterator[Suspect]:
    servers = context.topology.servers[job.phases.endpoints]
    for server in np.unique(servers[slow.any(axis=1)]).tolist():
        rows = np.flatnonzero((servers == server) & slow.any(axis=1))
        most = slow[rows].mean(axis=0) >= 0.5
        for first, last in stretches(most):
            inside = slow[rows, first : last + 1].mean(axis=1) >= 0.5
            if inside.any():
                yield _suspect(context, job, own, rows[inside], (first, last))


def _suspect(
    context: Context, job: JobView, own: Judged, rows: Ints, extent: tuple[int, int]
) -> Suspect:
    first, last = extent
    ends = job.phases.endpoints[rows]
    names = [context.topology.addresses[end] for end in ends.tolist()]
    during = own.ratio[rows, first : last + 1]
    others = _others(own, rows, first, last)
    ratio = float(np.nanmedian(during))
    alone = rows.size == 1
    server = context.topology.endpoints[int(ends[0])].server
    deviations = float((ratio - 1) / max(float(np.median(own.noise[rows])), 1e-3))
    return Suspect(
        job, "rank", "slow_compute", "slow_gpu",
        "address" if alone else "server", names[0] if alone else server,
        first, last, 1 - 1 / ratio, min(0.99, 1 - 0.5 / max(1.0, deviations / 5)),
        {
            "server": server,
            "one_of": names,
            "work_ratio": round(ratio, 4),
            "work_ratio_of_others": round(others, 4),
            "deviations": round(deviations, 1),
        },
    )  # fmt: skip


def _others(own: Judged, rows: Ints, first: int, last: int) -> float:
    rest: Bools = np.ones(own.ratio.shape[0], np.bool_)
    rest[rows] = False
    values = own.ratio[rest, first : last + 1]
    return float(np.nanmedian(values)) if np.isfinite(values).any() else 1.0

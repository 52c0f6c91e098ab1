"""Storage that writes or reads slowly, seen at checkpoints.

A job exchanges bulk data with a server that is none of its own, from time to time. Each such
*save* (or load) has a pace: its length over its bytes. Saves that take longer for as many bytes,
while steps with a save get longer and the others do not, are the storage's fault. A save in the
background may be slow without any cost; then there is no finding.

A save of a job has as many bytes as its others. One that seems to have fewer lacks records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools, Floats, Ints

APART = 0.5  # of a step: a longer silence parts two saves
BULK = 0.2  # of the bytes of the largest save; less is no save
FEWEST, HEALTHY = 4, 2  # saves, and those of them that show what is healthy
ALIKE = 0.05  # by which the bytes of saves differ: a job saves the same state each time
SLOWER = 1.2  # times the healthy pace
SURE = 0.9


@dataclass(frozen=True)
class Saves:
    """Bulk transfers between a job and one server, in order of time: step and pace of each."""

    server: str
    step: Ints
    pace: Floats


def slow_storage(context: Context) -> Iterator[Suspect]:
    """Bring forward servers outside a job with which it exchanges bulk data slowly."""
    for job in context.jobs:
        for saves in saves_of(context, job):
            healthy = float(np.sort(saves.pace)[HEALTHY - 1])  # the others may all be slow
            slow = saves.pace > SLOWER * healthy
            together = np.flatnonzero(slow)
            if together.size < HEALTHY or np.ptp(together) + 1 > together.size:
                continue  # now and then one is slow
            if (~slow).sum() >= HEALTHY:
                yield _suspect(job, saves, slow, float(np.median(saves.pace[slow])) / healthy)


def saves_of(context: Context, job: JobView) -> Iterator[Saves]:
    """Saves of ``job``, by server."""
    connections, servers = context.connections, context.topology.servers
    inside = np.zeros(len(servers), np.bool_)
    inside[job.phases.endpoints] = True
    own = connections.carries & (inside[connections.src] != inside[connections.dst])
    employed = set(servers[inside].tolist())
    other = np.where(inside[connections.src], connections.dst, connections.src)
    for server in sorted(set(servers[other[own]].tolist()) - employed):
        chosen = np.flatnonzero(own & (servers[other] == server))
        saves = _saves(
            context, job, np.concatenate([connections.by.rows(c) for c in chosen.tolist()])
        )
        if saves is not None:
            name = context.topology.endpoints[int(other[chosen[0]])].server
            yield Saves(name, *saves)


def _saves(context: Context, job: JobView, rows: Ints) -> tuple[Ints, Floats] | None:
    flows = context.flows
    rows = rows[np.argsort(flows.start_ns[rows], kind="stable")]
    start, end = flows.start_ns[rows], np.maximum.accumulate(flows.end_ns[rows])
    opens = np.flatnonzero(np.concatenate(([True], start[1:] - end[:-1] > APART * job.period_ns)))
    size = np.add.reduceat(flows.bytes[rows], opens).astype(np.float64)
    last = np.append(opens[1:], rows.size) - 1
    bulk = size >= BULK * size.max()
    if bulk.sum() < FEWEST:
        return None
    begin, length = start[opens][bulk], (end[last] - start[opens])[bulk]
    usual = float(np.median(size[bulk]))
    if np.median(np.abs(size[bulk] / usual - 1)) > ALIKE:
        return None
    step = np.searchsorted(job.end_ns, begin + length // 2)
    return np.minimum(step, job.count - 1), length / usual


def _suspect(job: JobView, saves: Saves, slow: Bools, ratio: float) -> Suspect:
    step = saves.step[slow]
    return Suspect(
        job, "network", "slow_saves", "slow_storage", "server", saves.server,
        int(step[0]), int(step[-1]), 1 - 1 / ratio, SURE,
        {
            "saves": int(saves.step.size),
            "slow_saves": int(slow.sum()),
            "pace_ratio": round(ratio, 3),
            "or_causes": ["slow_nic"],
        },
    )  # fmt: skip

"""Jobs that a scheduler knows: names for found jobs, or facts in place of what records show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from llmprism.io.topology import ScheduledJob, Topology
from llmprism.numerics.arrays import Codes, Ints

MATCH = 0.5  # of the servers that either has: so many must be those of both


def members_of(topology: Topology, first_ns: int, last_ns: int) -> Ints:
    """Place of the given job of each endpoint, shape (endpoints,).

    It is -1 for endpoints of no job, and where two jobs have the same one in that time.
    """
    names = [{_short(end.server), end.address} for end in topology.endpoints]
    member = np.full(len(names), -1)
    count = np.zeros(len(names), np.int64)
    for number, job in enumerate(topology.jobs):
        begins_late = job.begin_ns is not None and job.begin_ns > last_ns
        if not begins_late and (job.end_ns is None or job.end_ns >= first_ns):
            theirs = {*job.servers, *map(_short, job.servers)}
            inside = np.array([bool(theirs & each) for each in names])
            member[inside], count = number, count + inside
    return np.where(count == 1, member, -1)


def unlisted(member: Ints, number: int, src: Codes, dst: Codes, size: Ints) -> Ints:
    """Endpoints outside a given job that move as much with its members as these usually do.

    ``src``, ``dst`` and ``size`` are those of connections.
    """
    inside = member == number
    ends = np.concatenate((src[inside[dst]], dst[inside[src]]))
    total = np.bincount(ends, np.concatenate((size[inside[dst]], size[inside[src]])), member.size)
    return np.flatnonzero(~inside & (total > 0) & (total >= np.median(total[inside])))


def matched(
    jobs: pd.DataFrame, steps: pd.DataFrame, scheduled: Sequence[ScheduledJob]
) -> dict[str, str]:
    """The name of each found job that ran on the same servers at the same time."""
    times = steps.groupby("job", observed=True).agg(
        begin=("start_ns", "min"), end=("end_ns", "max")
    )
    names = {}
    for job, rows in jobs.groupby(jobs["job"].astype(str)):
        own = {_short(str(one)) for one in rows["server"]}
        known = times[times.index == job].to_numpy(np.int64)
        begin, end = (int(known[0, 0]), int(known[0, 1])) if len(known) else (None, None)
        fits = [(_match(own, one), one.name) for one in scheduled if _overlaps(one, begin, end)]
        best, name = max(fits, default=(0.0, ""))
        if best >= MATCH:
            names[str(job)] = name
    return names


def _match(servers: set[str], job: ScheduledJob) -> float:
    theirs = {_short(one) for one in job.servers}
    return len(servers & theirs) / max(len(servers | theirs), 1)


def _short(server: str) -> str:
    """The name of a host without its domain; an address as it is."""
    return server if server.replace(".", "").isdigit() else server.partition(".")[0]


def _overlaps(job: ScheduledJob, begin: int | None, end: int | None) -> bool:
    """Whether half of the time of a found job, if that is known, lies in that of ``job``."""
    if begin is None or end is None:
        return True
    first = begin if job.begin_ns is None else max(begin, job.begin_ns)
    last = end if job.end_ns is None else min(end, job.end_ns)
    return 2 * (last - first) >= end - begin

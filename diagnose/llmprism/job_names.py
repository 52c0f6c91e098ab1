"""Names of jobs that a scheduler knows: matched by the servers and the time of a found job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

MATCH = 0.5  # of the servers that either has: so many must be those of both


@dataclass(frozen=True)
class ScheduledJob:
    """A job of a scheduler; a begin or end of None is unknown, or has not come.

    Attributes
    ----------
    begin_ns, end_ns : since the epoch.
    """

    name: str
    servers: frozenset[str]
    begin_ns: int | None = None
    end_ns: int | None = None


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

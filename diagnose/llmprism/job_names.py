"""Jobs that a scheduler knows: names for found jobs, or facts in place of what records show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from llmprism.io.topology import ScheduledJob, Topology
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

MATCH = 0.5  # of the servers that either has: so many must be those of both
TWICE, UNLISTED = -2, -3  # places of endpoints of which records decide


def members_of(
    topology: Topology, first_ns: int, last_ns: int, ends: tuple[Codes, Codes], size: Ints
) -> Ints:
    """Place of the given job of each endpoint, shape (endpoints,): -1 for those of no job.

    It is :data:`TWICE` where two jobs list an endpoint in that time, and :data:`UNLISTED` where
    none does, although it exchanges as much with members of a job as these usually do. ``ends``
    (sources and destinations) and ``size`` are those of connections.
    """
    names = [{short_name(end.server), end.address} for end in topology.endpoints]
    member = np.full(len(names), -1)
    for number, job in enumerate(topology.jobs):
        begins_late = job.begin_ns is not None and job.begin_ns > last_ns
        if not begins_late and (job.end_ns is None or job.end_ns >= first_ns):
            theirs = {*job.servers, *map(short_name, job.servers)}
            inside = np.array([bool(theirs & each) for each in names], np.bool_)
            member[inside] = np.where(member[inside] == -1, number, TWICE)
    listed = member.copy()
    for number in np.unique(listed[listed >= 0]).tolist():
        shared = _shared(listed == number, ends, size)
        as_much = (shared > 0) & (shared >= np.median(shared[listed == number]))
        member[as_much & (listed == -1)] = UNLISTED
    return member


def _shared(inside: Bools, ends: tuple[Codes, Codes], size: Ints) -> Floats:
    """Bytes that each endpoint exchanges with members that are ``inside`` a job."""
    src, dst = ends
    partners = np.concatenate((src[inside[dst]], dst[inside[src]]))
    moved = np.concatenate((size[inside[dst]], size[inside[src]]))
    return np.bincount(partners, moved, inside.size).astype(np.float64)


def contradictions(
    topology: Topology, member: Ints, number: int, ends: tuple[Codes, Codes], size: Ints
) -> dict[str, list[str]]:
    """Servers of which records show something else than the list of a given job says.

    ``member``: of :func:`members_of`. A member is apart if it sends, but nothing to other members.
    """
    shared, sends = _shared(member == number, ends, size), np.zeros(member.size, np.bool_)
    sends[np.concatenate(ends)] = True
    shown = {
        "not_listed": (member == UNLISTED) & (shared > 0),
        "listed_twice": (member == TWICE) & (shared > 0),
        "apart": (member == number) & sends & (shared == 0),
    }
    codes = {name: np.flatnonzero(own).tolist() for name, own in shown.items() if own.any()}
    return {
        name: list(dict.fromkeys(topology.endpoints[code].server for code in own))
        for name, own in codes.items()
    }


def strangers(topology: Topology) -> list[str]:
    """Members of given jobs that the topology does not have."""
    given = {name for job in topology.jobs for name in job.servers}
    return sorted(given - servers_of(topology, given).keys())


def servers_of(topology: Topology, names: Iterable[str]) -> dict[str, str]:
    """The server of each name that is a server's, with another domain or none, or an address."""
    known = {short_name(end.server): end.server for end in topology.endpoints}
    for end in topology.endpoints:
        known |= {end.address: end.server, end.server: end.server}
    found = {name: known.get(name, known.get(short_name(name))) for name in names}
    return {name: server for name, server in found.items() if server is not None}


def matched(
    jobs: pd.DataFrame, steps: pd.DataFrame, scheduled: Sequence[ScheduledJob]
) -> dict[str, str]:
    """The name of each found job that ran on the same servers at the same time."""
    times = steps.groupby("job", observed=True).agg(
        begin=("start_ns", "min"), end=("end_ns", "max")
    )
    names = {}
    for job, rows in jobs.groupby(jobs["job"].astype(str)):
        own = {short_name(str(one)) for one in rows["server"]}
        known = times[times.index == job].to_numpy(np.int64)
        begin, end = (int(known[0, 0]), int(known[0, 1])) if len(known) else (None, None)
        fits = [(_match(own, one), one.name) for one in scheduled if _overlaps(one, begin, end)]
        best, name = max(fits, default=(0.0, ""))
        if best >= MATCH:
            names[str(job)] = name
    return names


def _match(servers: set[str], job: ScheduledJob) -> float:
    theirs = {short_name(one) for one in job.servers}
    return len(servers & theirs) / max(len(servers | theirs), 1)


def short_name(server: str) -> str:
    """The name of a host without its domain; an address as it is."""
    return server if server.replace(".", "").isdigit() else server.partition(".")[0]


def _overlaps(job: ScheduledJob, begin: int | None, end: int | None) -> bool:
    """Whether half of the time of a found job, if that is known, lies in that of ``job``."""
    if begin is None or end is None:
        return True
    first = begin if job.begin_ns is None else max(begin, job.begin_ns)
    last = end if job.end_ns is None else min(end, job.end_ns)
    return 2 * (last - first) >= end - begin

"""Whether the jobs of a scenario fit into its cluster.

A TP group sits in one server on neighbouring GPUs, at a multiple of its own size, so a
server has as many places for it as whole groups fit behind the GPUs already taken. Jobs
keep their GPUs to the end of the simulation. Where exactly a rank goes is decided by the
simulator; here it is only counted whether there is room.
"""

from __future__ import annotations

from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.job import Job, OnServers
from prism_sim.scenario.models import Scenario
from prism_sim.scenario.names import server_index, server_name

_SERVERS: Loc = ("cluster", "servers")
_GPUS: Loc = ("cluster", "gpus_per_server")


def placement_remarks(scenario: Scenario) -> Remarks:
    """Jobs that cannot be placed: too large, split wrongly, or on servers that are not there.

    Jobs with servers of their own are counted first, then the others in their order.
    """
    cluster = scenario.cluster
    taken = [0] * cluster.servers
    order = sorted(enumerate(scenario.jobs), key=lambda item: not _is_explicit(item[1]))
    for index, job in order:
        at: Loc = ("jobs", index)
        if cluster.gpus_per_server % job.tp:
            yield _indivisible(cluster, job, at)
            continue
        unknown = [*_server_remarks(cluster, job, at)]
        yield from unknown
        if not unknown:
            yield from _fit(cluster, job, at, taken)


def _is_explicit(job: Job) -> bool:
    return isinstance(job.placement, OnServers)


def _indivisible(cluster: Cluster, job: Job, at: Loc) -> Remark:
    gpus = cluster.gpus_per_server
    verb = "is larger than" if job.tp > gpus else "does not divide"
    what = f"tp {job.tp} of job {job.name} {verb} the {gpus} GPUs of a server"
    return Remark((*at, "tp"), what, "tensor parallelism stays inside a server", (_GPUS,))


def _server_remarks(cluster: Cluster, job: Job, at: Loc) -> Remarks:
    names = job.placement.servers if isinstance(job.placement, OnServers) else ()
    seen: set[str] = set()
    for position, name in enumerate(names):
        loc = (*at, "placement", "servers", position)
        if not cluster.has_server(name):
            how = f"servers run from {server_name(0)} to {server_name(cluster.servers - 1)}"
            yield Remark(loc, f"there is no server {name!r} in the cluster", how, (_SERVERS,))
        if name in seen:
            yield Remark(loc, f"server {name} is given twice for job {job.name}")
        seen.add(name)


def _fit(cluster: Cluster, job: Job, at: Loc, taken: list[int]) -> Remarks:
    """Take the GPUs of ``job`` from ``taken`` (GPUs in use, by server), if they are there."""
    candidates: list[int] = [*range(cluster.servers)]
    if isinstance(job.placement, OnServers):
        candidates = [server_index(name) or 0 for name in job.placement.servers]
    wanted = job.dp * job.pp
    starts = {server: -(-taken[server] // job.tp) * job.tp for server in candidates}
    rooms = {server: (cluster.gpus_per_server - starts[server]) // job.tp for server in candidates}
    if sum(rooms.values()) < wanted:
        where = "its servers" if _is_explicit(job) else f"{cluster.servers} servers"
        free = sum(rooms.values()) * job.tp
        what = (
            f"job {job.name} needs {job.ranks} GPUs (dp {job.dp} x pp {job.pp} x tp {job.tp}), "
            f"and {where} have {free} free for it"
        )
        size = tuple((*at, key) for key in ("dp", "pp", "tp", "placement"))
        yield Remark(
            at, what, "make the job smaller or the cluster larger", (*size, _SERVERS, _GPUS)
        )
        return
    for server in candidates:
        groups = min(rooms[server], wanted)
        wanted -= groups
        if groups:
            taken[server] = starts[server] + groups * job.tp

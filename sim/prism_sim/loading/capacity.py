"""Checks that the jobs of a scenario fit into its cluster.

A tensor-parallel group uses neighbouring GPUs of one NVLink domain. Jobs are placed in the
order in which the scenario lists them, by the same code as in a simulation,
and keep their GPUs until the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_common.errors import UserError
from prism_sim.cluster.placement import Placement
from prism_sim.draws import Draws
from prism_sim.loading.job import AnyJob, Job
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.job import OnServers
from prism_sim.scenario.names import server_name

_SERVERS: Loc = ("cluster", "servers")
_GPUS: Loc = ("cluster", "gpus_per_server")
_DOMAIN: Loc = ("cluster", "nvlink_domain")


def placement_remarks(scenario: Scenario) -> Remarks:
    """Jobs that cannot be placed: too large, badly divided, or on servers that do not exist."""
    cluster = scenario.cluster
    placement = Placement(cluster, Draws(scenario.seed), scenario.storage)
    for index, job in enumerate(scenario.jobs):
        at: Loc = ("jobs", index)
        wrong = [*_group_remarks(cluster, job, at), *_server_remarks(cluster, job, at)]
        yield from wrong or _room_remarks(placement, cluster, job, at)


def _group_remarks(cluster: Cluster, job: AnyJob, at: Loc) -> Remarks:
    gpus, domain = cluster.gpus_per_server, cluster.domain_gpus
    if gpus % job.tp and job.tp % gpus:
        verb = "is not a multiple of" if job.tp > gpus else "does not divide"
        what = f"tp {job.tp} of job {job.name} {verb} the {gpus} GPUs of a server"
        how = "a tensor-parallel group is a part of a server, or whole servers"
        yield Remark((*at, "tp"), what, how, (_GPUS,))
    elif job.tp > domain and job.tp % domain:
        what = f"tp {job.tp} of job {job.name} is not a multiple of the {domain} GPUs of a domain"
        how = "a tensor-parallel group is a part of an NVLink domain, or whole ones"
        yield Remark((*at, "tp"), what, how, (_GPUS, _DOMAIN))


def _server_remarks(cluster: Cluster, job: AnyJob, at: Loc) -> Remarks:
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


def _room_remarks(placement: Placement, cluster: Cluster, job: AnyJob, at: Loc) -> Remarks:
    try:
        gpus = placement.place(job)
    except UserError as error:
        how = (
            f"{job.size} of the cluster's {cluster.gpus}; make the job smaller or the cluster "
            "larger (jobs are placed in their order, and keep their GPUs)"
        )
        reads = tuple((*at, key) for key in ("dp", "pp", "tp", "cp", "placement"))
        for problem in error.problems:
            yield Remark(at, problem.what, how, (*reads, _SERVERS, _GPUS))
    else:
        yield from _balance_remarks(cluster, job, gpus, at)


def _balance_remarks(cluster: Cluster, job: AnyJob, gpus: NDArray[np.int64], at: Loc) -> Remarks:
    """An all-reduce that needs as many ranks of a group in every server, and does not have them.

    ``gpus`` has the GPU of every rank, shape (stages, members, tp).
    """
    if not isinstance(job, Job) or job.strategy.sharded or not job.all_reduce.even_servers:
        return
    groups = [group for stage in gpus // cluster.domain_gpus for group in stage.T]
    counts = [np.unique(group, return_counts=True)[1].tolist() for group in groups]
    uneven = next((own for own in counts if len(set(own)) > 1), None)
    if uneven is not None:
        what = (
            f"job {job.name}: a {job.all_reduce.kind} all-reduce needs as many ranks of a group in "
            f"every server, not {uneven}"
        )
        how = "use all_reduce: ring, or place the job evenly"
        reads = tuple((*at, key) for key in ("dp", "pp", "tp", "cp", "placement"))
        yield Remark((*at, "all_reduce"), what, how, (*reads, _SERVERS, _GPUS))

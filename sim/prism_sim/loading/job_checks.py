"""Checks of one job: division of its model, durations, sharding, and restarts.

Each function yields the problems of one job; ``at`` is the job's location in the scenario.
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


def stage_remarks(job: Job, at: Loc) -> Remarks:
    """Check the division of layers into stages and their chunks."""
    sizes, model = job.model, (*at, "model")
    if job.stage_layers is None:
        if sizes.layers % job.parts:
            how_many = f"{job.pp} equal stages" + (f" of {job.chunks}" if job.chunks > 1 else "")
            what = f"{sizes.layers} layers of {sizes.name} cannot be cut into {how_many}"
            how = "pp must divide the layers" if job.chunks == 1 else "pp x chunks must divide them"
            yield Remark((*at, "pp"), what, how, (model, (*at, "chunks")))
    elif len(job.stage_layers) != job.parts or sum(job.stage_layers) != sizes.layers:
        given, total = len(job.stage_layers), sum(job.stage_layers)
        what = f"stage_layers has {given} parts with {total} layers in all"
        how = f"pp x chunks are {job.parts} parts, and {sizes.name} has {sizes.layers} layers"
        reads = (model, (*at, "pp"), (*at, "chunks"))
        yield Remark((*at, "stage_layers"), what, how, reads)
    elif not all(job.stage_layers[1:-1]):
        what = "a part of the model between the first and the last has no layer"
        yield Remark((*at, "stage_layers"), what, "give it one, or ask for fewer parts")
    if job.stage_factors is not None and len(job.stage_factors) != job.pp:
        what = f"stage_factors has {len(job.stage_factors)} factors for {job.pp} stages"
        yield Remark((*at, "stage_factors"), what, "give one per stage", ((*at, "pp"),))


def batch_remarks(job: Job, at: Loc) -> Remarks:
    """Check the global batch against replicas and micro-batches."""
    batch, each = job.global_batch_size, job.dp * job.micro_batch_size
    if batch is None or batch == each * job.micro_batches:
        return
    reads = tuple((*at, key) for key in ("dp", "micro_batch_size", "micro_batches"))
    by = f"dp {job.dp} x micro_batch_size {job.micro_batch_size}"
    if batch % each:
        what = f"global_batch_size {batch} cannot be shared evenly by {by}"
        below = batch // each * each
        nearest = f"{below} or {below + each}" if below else f"{each}"
        how = f"use a multiple of {each}, such as {nearest}"
    else:
        what = f"global_batch_size {batch} is not {by} x micro_batches {job.micro_batches}"
        how = f"leave micro_batches out, or write {batch // each}"
    yield Remark((*at, "global_batch_size"), what, how, reads)


def timing_remarks(job: Job, at: Loc) -> Remarks:
    """Check that measured durations fit the job."""
    if job.timings is None:
        return
    file = (*at, "trace")
    steps, stages, replicas, rows, micro_batches = job.timings.shape
    passes = 2 * job.chunks
    for key, given, measured in (
        ("dp", job.dp, replicas), ("pp", job.pp, stages),
        ("micro_batches", job.micro_batches, micro_batches), ("chunks", passes, rows),
    ):  # fmt: skip
        if given != measured:
            shown = (given, measured) if key != "chunks" else (job.chunks, rows // 2)
            what = f"{key} is {shown[0]}, but the timeline was measured with {shown[1]}"
            yield Remark((*at, key), what, f"leave {key} out, or write {shown[1]}", (file,))
    if job.steps > steps:
        what = f"{job.steps} steps are requested, but the timeline has {steps}"
        yield Remark((*at, "steps"), what, "leave steps out for all of them", (file,))
    if job.restarts:
        what = "steps that are repeated after a restart were not measured"
        yield Remark((*at, "restarts"), what, "leave restarts out", (file,))
    if job.schedule.splits_backward:
        what = "the timeline does not separate the two halves of a backward pass"
        yield Remark((*at, "schedule"), what, "use another schedule", (file,))
    if job.stage_factors is not None:
        what = "stage_factors would change durations that were measured"
        yield Remark((*at, "stage_factors"), what, "leave them out", (file,))


def sharding_remarks(job: Job, at: Loc) -> Remarks:
    """Check that the replicas can be sharded and reduced as requested."""
    if job.hybrid_shards is not None:
        if job.dp % job.hybrid_shards:
            what = f"{job.dp} replicas cannot be cut into groups of {job.hybrid_shards}"
            yield Remark((*at, "hybrid_shards"), what, "it must divide dp", ((*at, "dp"),))
        if job.cp > 1 or job.ep > 1:
            what = "hybrid sharding of context- or expert-parallel replicas is not modelled"
            yield Remark((*at, "hybrid_shards"), what, "", ((*at, "cp"), (*at, "ep")))


def restart_remarks(job: Job, at: Loc) -> Remarks:
    """Check that restarts name existing ranks and steps, in a possible order."""
    before = -1
    for index, restart in enumerate(job.restarts):
        here: Loc = (*at, "restarts", index)
        if restart.rank >= job.ranks:
            what = f"rank {restart.rank} is not one of the {job.ranks} ranks of job {job.name}"
            size = tuple((*at, key) for key in ("name", "dp", "pp", "tp"))
            yield Remark((*here, "rank"), what, f"ranks count from 0 to {job.ranks - 1}", size)
        if restart.step <= before:
            what = f"step {restart.step} is over before step {before} has failed"
            how = "list restarts in order of time; a repeated step has its own number"
            yield Remark((*here, "step"), what, how, ((*at, "restarts", index - 1, "step"),))
        if not index and restart.step >= job.steps:
            what = f"step {restart.step} lies after the last step of job {job.name}"
            how = f"steps run from 0 to {job.steps - 1}"
            yield Remark((*here, "step"), what, how, ((*at, "steps"),))
        before = restart.step


# Checks that the jobs of a scenario fit into its cluster.
#
# A tensor-parallel group uses neighbouring GPUs of one NVLink domain. Jobs are placed in the
# order in which the scenario lists them, by the same code as in a simulation,
# and keep their GPUs until the end, except for jobs that come after them.

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
        wrong += _order_remarks(scenario, index, at)
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


def _order_remarks(scenario: Scenario, index: int, at: Loc) -> Remarks:
    job = scenario.jobs[index]
    first = next((one for one in scenario.jobs[:index] if one.name == job.after), None)
    if job.after is not None and first is None:
        what = f"job {job.name} comes after {job.after}, and no job above has that name"
        yield Remark((*at, "after"), what, "name a job that is listed before it")
    elif first is not None and first.start_s >= job.start_s:
        what = f"job {job.name} comes after {job.after}, and does not start later"
        yield Remark((*at, "start_s"), what, f"let it start when {job.after} has ended")


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

"""What a job may not say: how its model is cut, scheduled and sharded.

Each function yields what is wrong with one job, whose place in the scenario is ``at``.
"""

from __future__ import annotations

from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.job import Job
from prism_sim.scenario.words import did_you_mean
from prism_sim.training.schedules import SCHEDULES


def stage_remarks(job: Job, at: Loc) -> Remarks:
    """How the layers are dealt out to stages and their chunks."""
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
        yield Remark((*at, "stage_factors"), what, "give one a stage", ((*at, "pp"),))


def schedule_remarks(job: Job, at: Loc) -> Remarks:
    """Whether the schedule exists and can be made of the job's stages and micro-batches."""
    if job.schedule not in SCHEDULES:
        what = f"there is no schedule {job.schedule!r}"
        yield Remark((*at, "schedule"), what, did_you_mean(job.schedule, SCHEDULES))
    elif job.schedule == "interleaved":
        if job.pp == 1 or job.micro_batches % job.pp:
            what = f"{job.micro_batches} micro-batches cannot be interleaved over {job.pp} stages"
            how = "interleaving needs several stages, and whole groups of as many micro-batches"
            reads = ((*at, "pp"), (*at, "micro_batches"))
            yield Remark((*at, "schedule"), what, how, reads)
    elif job.chunks > 1:
        what = f"schedule {job.schedule} knows no chunks of stages, {job.chunks} are asked for"
        yield Remark((*at, "chunks"), what, "use schedule: interleaved", ((*at, "schedule"),))


def batch_remarks(job: Job, at: Loc) -> Remarks:
    """Whether the global batch is what replicas and micro-batches make of it."""
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
    """Whether measured durations are those of such a job."""
    if job.timings is None:
        return
    file = (*at, "trace")
    steps, stages, replicas, rows, micro_batches = job.timings.shape
    passes = 2 * job.chunks
    for key, said, measured in (
        ("dp", job.dp, replicas), ("pp", job.pp, stages),
        ("micro_batches", job.micro_batches, micro_batches), ("chunks", passes, rows),
    ):  # fmt: skip
        if said != measured:
            told = (said, measured) if key != "chunks" else (job.chunks, rows // 2)
            what = f"{key} is {told[0]}, and the timeline was measured with {told[1]}"
            yield Remark((*at, key), what, f"leave {key} out, or write {told[1]}", (file,))
    if job.steps > steps:
        what = f"{job.steps} steps are asked for, and the timeline has {steps}"
        yield Remark((*at, "steps"), what, "leave steps out for all of them", (file,))
    if job.restarts:
        what = "steps that are repeated after a restart were not measured"
        yield Remark((*at, "restarts"), what, "leave restarts out", (file,))
    if job.schedule == "zb-h1":
        what = "the timeline does not tell the two halves of a backward pass apart"
        yield Remark((*at, "schedule"), what, "use another schedule", (file,))
    if job.stage_factors is not None:
        what = "stage_factors would change durations that were measured"
        yield Remark((*at, "stage_factors"), what, "leave them out", (file,))


def sharding_remarks(job: Job, at: Loc) -> Remarks:
    """Whether what replicas share can be shared in that way."""
    if job.hybrid_shards is not None:
        if job.dp % job.hybrid_shards:
            what = f"{job.dp} replicas cannot be cut into groups of {job.hybrid_shards}"
            yield Remark((*at, "hybrid_shards"), what, "it must divide dp", ((*at, "dp"),))
        if not job.zero_stage:
            what = "hybrid_shards shards what zero_stage 0 does not shard"
            how = "raise zero_stage, or use all_reduce: hierarchical"
            yield Remark((*at, "hybrid_shards"), what, how, ((*at, "zero_stage"),))
        if job.cp > 1 or job.ep > 1:
            what = "hybrid sharding of context- or expert-parallel replicas is not modelled"
            yield Remark((*at, "hybrid_shards"), what, "", ((*at, "cp"), (*at, "ep")))
    if job.library is not None and job.all_reduce != "ring":
        what = f"the socket library knows rings, not all_reduce: {job.all_reduce}"
        yield Remark((*at, "all_reduce"), what, "leave it out", ((*at, "library"),))
    if job.overlap_param_gather and job.zero_stage not in (1, 2):
        what = f"overlap_param_gather has nothing to overlap with zero_stage {job.zero_stage}"
        yield Remark((*at, "overlap_param_gather"), what, "use ZeRO 1 or 2")


def restart_remarks(job: Job, at: Loc) -> Remarks:
    """Whether what fails exists, and in an order in which it can."""
    before = -1
    for index, restart in enumerate(job.restarts):
        here: Loc = (*at, "restarts", index)
        if restart.rank >= job.ranks:
            what = f"rank {restart.rank} is none of the {job.ranks} ranks of job {job.name}"
            size = tuple((*at, key) for key in ("name", "dp", "pp", "tp"))
            yield Remark((*here, "rank"), what, f"ranks count from 0 to {job.ranks - 1}", size)
        if restart.step <= before:
            what = f"step {restart.step} is over before step {before} has failed"
            how = "list restarts in time; a step that is repeated has a number of its own"
            yield Remark((*here, "step"), what, how, ((*at, "restarts", index - 1, "step"),))
        if not index and restart.step >= job.steps:
            what = f"step {restart.step} lies after the last step of job {job.name}"
            how = f"steps run from 0 to {job.steps - 1}"
            yield Remark((*here, "step"), what, how, ((*at, "steps"),))
        before = restart.step


def exchange_remarks(job: Job, at: Loc) -> Remarks:
    """Whether sequences and experts can be shared by the ranks that are to share them."""
    if job.cp > 1 and job.model.latent_attention is not None:
        what = "context parallelism of latent attention is not modelled"
        yield Remark((*at, "cp"), what, "leave cp out", ((*at, "model"),))
    if job.tokens % job.cp:
        what = f"{job.tokens} tokens cannot be cut into {job.cp} equal parts"
        yield Remark((*at, "cp"), what, "cp must divide the sequence", ((*at, "sequence_length"),))
    if job.dp % job.ep:
        what = f"{job.ep} expert-parallel ranks cannot be taken from {job.dp} replicas"
        yield Remark((*at, "ep"), what, "ep must divide dp", ((*at, "dp"),))
    if job.length_spread and job.ep > 1:
        what = "experts shared by replicas with sequences of different lengths are not modelled"
        yield Remark((*at, "length_spread"), what, "leave it out", ((*at, "ep"),))
    if job.mixture is None:
        if job.ep > 1:
            what = f"ep {job.ep} shares experts, and the model has none"
            reads = ((*at, "moe"), (*at, "model"))
            yield Remark((*at, "ep"), what, "add moe, or leave ep out", reads)
        return
    moe = (*at, "moe")
    if job.mixture.experts % job.ep:
        what = f"{job.mixture.experts} experts cannot be shared evenly by {job.ep} ranks"
        yield Remark((*moe, "experts"), what, "ep must divide the experts", ((*at, "ep"),))
    if job.mixture.top_k > job.mixture.experts:
        what = f"a token cannot be sent to {job.mixture.top_k} of {job.mixture.experts} experts"
        yield Remark((*moe, "top_k"), what, "lower top_k", ((*moe, "experts"),))
    if job.zero_stage == 3:
        what = "experts with fully sharded parameters are not modelled"
        yield Remark((*at, "zero_stage"), what, "use zero_stage 0, 1 or 2", (moe,))

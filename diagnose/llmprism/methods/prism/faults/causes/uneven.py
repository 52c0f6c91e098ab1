"""A stage of a pipeline that works longer than the others in every step: layers are divided badly.

There is no step without it, so no comparison of steps shows what it costs. The times of the passes
do. A stage gets its first input after the forward passes of those before it. It works through all
micro-batches, and may have to wait once, between its first forward passes and the first gradient:
in 1F1B it does more of them meanwhile, in GPipe all are done. Then the last gradient goes back
through the stages before it. The stage for which this takes longest decides. The same sum for
stages with equal work shows what an even division would save.

A stage in the middle shows its forward and backward passes. In 1F1B the last one shows both in one,
and so does the first one when it waits for a gradient before it sends the next activation. Where a
stage shows one pass only, the other one is taken to be longer by as much as in the middle. So a
pipeline of two stages shows nothing here.

The last stage of a healthy job is longer, too: it has the output layer. Flows do not show layers,
but gradients show parameters. A pass takes as much work for each parameter, so a stage with more
gradients may take longer by as much. A pass that has to gather its parameters may wait for them, so
it shows nothing. Only a stage that is much longer than that is a finding. What was so all along
explains no change, so it is a finding only about a job about which nothing else is found. Where
records hold several messages, what lies between them may seem to be a pass: passes that take longer
than a step, all together, show nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.passes.passes import BACK, FORTH, Passes, passes_of
from llmprism.methods.prism.faults.suspects.cost import Cost
from llmprism.methods.prism.faults.suspects.stages import ALL
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import finite_median, nanmedian

LEAST = 0.6  # by which a stage is longer: the output layer of a small model alone adds half
SPREAD = 0.15  # ... than its gradients explain: healthy GPUs differ by 14 %, as published
WORTH = 0.15  # of a step, that an even division would save: such output layers cost about as much
TICKS = 3  # of the clock: what rounding adds to a pass at either end, and to the others
LONGER = 1.1  # times a step: so long no passes are, but for what they vary
SHORTEST = 3  # stages: of two, only one shows both passes
SURE, EITHER = 0.8, 0.6  # confidence with ranks of the stage in several servers, and in one


def uneven(context: Context, named: Sequence[Suspect]) -> Iterator[Suspect]:
    """Bring forward stages that are long all along, in jobs that ``named`` says nothing about."""
    for job in context.jobs:
        if job.phases.gathers is not None or any(one.job is job for one in named):
            continue
        passes = passes_of(context, job)
        if passes is None or passes.stages < SHORTEST or passes.out.shape[3] < 2:
            continue
        forth, both = work_of_endpoints_ns(passes)
        work = np.array([_of_stage(both, passes, one) for one in range(passes.stages)])
        ahead = np.array([_of_stage(forth, passes, one) for one in range(passes.stages)])
        if not np.isfinite(work + ahead).all() or not work.min() > 0:
            continue
        if pipeline_ns(passes, ahead, work) > LONGER * job.period_ns:
            continue
        stage = int(np.argmax(work))
        others = float(np.median(np.delete(work, stage)))
        own = both[passes.stage == stage]
        often = (own[np.isfinite(own)] > (1 + LEAST / 2) * others).mean() >= ALL
        tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
        explained = others * _gradients(context, job, stage)
        least = max((1 + LEAST) * others, (1 + SPREAD) * explained)
        clear = work[stage] > max(least, others + TICKS * tick_ns)
        suspect = _suspect(context, job, work, _saved_ns(passes, ahead, work))
        if often and clear and suspect.cost.share > WORTH:
            yield suspect


def _gradients(context: Context, job: JobView, stage: int) -> float:
    """Gradients of ``stage`` over those of the other stages, median [bytes]; 1 if it has fewer."""
    stage_of = np.full(len(context.flows.addresses), -1)
    stage_of[job.phases.endpoints] = job.pipelines.stage
    own = [one.one.connections for one in job.phases.classes if one.kind == "dp"]
    chosen = np.concatenate([np.empty(0, np.int64), *own])
    at = stage_of[context.connections.src[chosen]]
    total = context.connections.total_bytes[chosen].astype(np.float64)
    sent = np.bincount(at[at >= 0], total[at >= 0], job.pipelines.length)
    others = float(np.median(np.delete(sent, stage)))
    return max(1.0, float(sent[stage]) / others) if others > 0 else 1.0


def work_of_endpoints_ns(passes: Passes) -> tuple[Floats, Floats]:
    """Forward pass of a micro-batch, and both passes, by endpoint and step [ns]."""
    half, depth, work = passes.messages // 2, passes.depth, passes.work_ns
    forth, back = (
        nanmedian(work[:, :, way * half : (way + 1) * half], axis=2) for way in (FORTH, BACK)
    )
    first, last = passes.stage == 0, passes.stage == passes.stages - 1
    middle = (passes.stage >= 0) & ~first & ~last
    share = finite_median(forth[middle]) / finite_median((forth + back)[middle])
    both = forth + back
    both[last] = back[last] / (1 - share) if _forward_first(passes) else back[last]
    forth[last] = share * both[last]
    if 0 < depth < half:
        both[first] = nanmedian(work[first][:, :, depth:half], axis=2)
        forth[first] = nanmedian(work[first][:, :, :depth], axis=2)
    else:
        both[first] = forth[first] / share
    return forth, both


def _forward_first(passes: Passes) -> bool:
    """Whether the last stage sends its first gradient after all forward passes, as in GPipe."""
    last = passes.stage == passes.stages - 1
    after = passes.out[last, :, BACK, 0] - passes.into[last, :, FORTH, -1]
    return finite_median(after) > 0


def _of_stage(work: Floats, passes: Passes, stage: int) -> float:
    return finite_median(work[passes.stage == stage])


def _saved_ns(passes: Passes, forth: Floats, both: Floats) -> float:
    """What a step would be shorter by, if all stages did equal work [ns]."""
    even = [np.full(values.size, values.mean()) for values in (forth, both)]
    return pipeline_ns(passes, forth, both) - pipeline_ns(passes, *even)


def pipeline_ns(passes: Passes, forth: Floats, both: Floats) -> float:
    """How long all passes of a step take, by the stage for which it is longest [ns]."""
    micro_batches, stages = passes.out.shape[3], passes.stages
    depth = 1 if _forward_first(passes) else min(micro_batches, stages)
    longest = 0.0
    for one in range(stages):
        ahead = max(1, depth - one)
        wait = max(0.0, float(both[one + 1 :].sum()) - (ahead - 1) * float(forth[one]))
        through = micro_batches * float(both[one]) + float(both[:one].sum())
        longest = max(longest, through + wait)
    return longest


def _suspect(context: Context, job: JobView, work: Floats, saved_ns: float) -> Suspect:
    stage, usual_ns = int(np.argmax(work)), job.period_ns
    rows = np.flatnonzero(job.pipelines.stage == stage)
    several = np.unique(context.topology.servers[job.phases.endpoints[rows]]).size > 1
    return Suspect(
        job, "group", "slow_passes", "uneven_stage", "stage", f"{job.name} stage {stage}",
        0, job.count - 1, 1 - float(work.mean() / work[stage]), SURE if several else EITHER,
        {
            "stage": stage,
            "ranks": int(rows.size),
            "stage_work_ns": [round(one) for one in work.tolist()],
            **({} if several else {"or_causes": ["slow_server"]}),
        },
        lost=Cost(usual_ns - saved_ns, usual_ns, saved_ns * job.count, np.inf),
    )  # fmt: skip

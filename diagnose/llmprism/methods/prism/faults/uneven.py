"""A stage of a pipeline that works longer than the others in every step: layers are divided badly.

There is no step without it, so no comparison of steps shows what it costs. The pipeline does: in
1F1B as in GPipe all wait for the longest stage, for every micro-batch but one, which passes through
all stages once. With the same work divided evenly they would wait for the mean of the stages.

A stage works for a forward and a backward pass of each micro-batch. A stage in the middle shows
both, and the last one both in one. So does the first one, if it waits for a gradient before it
sends the next activation. If not, its backward pass is taken to be as much longer than its forward
pass as in the middle. So a pipeline of two stages shows nothing here.

The last stage of a healthy job is longer, too: it has the output layer. Flows do not show layers,
so only a stage that is much longer is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.cost import Cost
from llmprism.methods.prism.faults.passes import BACK, FORTH, Passes, passes_of
from llmprism.methods.prism.faults.stages import ALL
from llmprism.methods.prism.faults.suspects import Suspect
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import finite_median, nanmedian

LEAST = 0.6  # by which a stage is longer: the output layer of a small model alone adds half
WORTH = 0.15  # of a step, that an even division would save: such output layers cost about as much
TICKS = 3  # of the clock: what rounding adds to a pass at either end, and to the others
SHORTEST = 3  # stages: of two, only one shows both passes
SURE, EITHER = 0.8, 0.6  # confidence with ranks of the stage in several servers, and in one


def uneven(context: Context, named: Sequence[Suspect]) -> Iterator[Suspect]:
    """Bring forward stages that are long all along, but for those that ``named`` has already."""
    for job in context.jobs:
        passes = passes_of(context, job)
        if passes is None or passes.stages < SHORTEST or passes.out.shape[3] < 2:
            continue
        work = _work_ns(passes)
        by_stage = np.array([_of_stage(work, passes, one) for one in range(passes.stages)])
        if not np.isfinite(by_stage).all() or not by_stage.min() > 0:
            continue
        stage = int(np.argmax(by_stage))
        rows = np.flatnonzero(passes.stage == stage)
        others = float(np.median(np.delete(by_stage, stage)))
        suspect = _suspect(context, job, stage, by_stage, rows)
        own = work[rows][np.isfinite(work[rows])]
        often = (own > (1 + LEAST / 2) * others).mean() >= ALL
        tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
        clear = by_stage[stage] - others > max(LEAST * others, TICKS * tick_ns)
        known = any(one.culprit == suspect.culprit for one in named)
        if often and clear and suspect.cost.share > WORTH and not known:
            yield suspect


def _work_ns(passes: Passes) -> Floats:
    """Forward and backward pass of a micro-batch, by endpoint and step [ns]."""
    half, depth = passes.messages // 2, passes.depth
    forth, back = (
        nanmedian(passes.work_ns[:, :, way * half : (way + 1) * half], axis=2)
        for way in (FORTH, BACK)
    )
    middle = (passes.stage > 0) & (passes.stage < passes.stages - 1)
    both = finite_median((forth + back)[middle])
    first, last = passes.stage == 0, passes.stage == passes.stages - 1
    total = forth + back
    if 0 < depth < half:
        total[first] = nanmedian(passes.work_ns[first][:, :, depth:half], axis=2)
    else:
        total[first] = forth[first] * both / finite_median(forth[middle])
    total[last] = back[last]
    return total


def _of_stage(work: Floats, passes: Passes, stage: int) -> float:
    return finite_median(work[passes.stage == stage])


def _suspect(context: Context, job: JobView, stage: int, by_stage: Floats, rows: Ints) -> Suspect:
    own, mean = float(by_stage[stage]), float(by_stage.mean())
    saved = (job.pipelines.micro_batches - 1) * (own - mean)
    usual = job.period_ns
    servers = np.unique(context.topology.servers[job.phases.endpoints[rows]])
    return Suspect(
        job, "group", "slow_passes", "uneven_stage", "stage", f"{job.name} stage {stage}",
        0, job.count - 1, 1 - mean / own, SURE if servers.size > 1 else EITHER,
        {
            "stage": stage,
            "ranks": int(rows.size),
            "stage_work_ns": [round(one) for one in by_stage.tolist()],
            **({} if servers.size > 1 else {"or_causes": ["slow_server"]}),
        },
        lost=Cost(usual - saved, usual, saved * job.count, np.inf),
    )  # fmt: skip

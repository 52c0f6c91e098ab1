"""A stage of a pipeline that works longer than the others in every step: layers are divided badly.

There is no step without it, so no comparison of steps shows it, and stages have no replicas of
other stages. What all of them do in a step does show: with W the work of a stage, and m
micro-batches, a step takes at least

    W of the stage + W / m of each other stage

for whichever stage that is longest: its input comes after one pass of each stage before it, and its
last gradient goes back through them. The same sum for stages with equal work shows what an even
division would save.

The last stage of a healthy job has the output layer. Flows do not show layers, but gradients show
parameters, and a pass takes as much work for each of them. So a stage with more gradients may take
longer by as much.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.groups.base import Named
from llmprism.methods.prism.parameters import EVEN, FEWEST_STAGES, WORTH
from llmprism.methods.prism.peers import ALWAYS, Standing
from llmprism.methods.prism.windows import Window
from llmprism.numerics.arrays import Floats


def long_stages(durations: Durations) -> Iterator[Standing]:
    """The stage that is longest in every step, if an even division would save enough."""
    pipelines = durations.job.pipelines
    if pipelines.length < FEWEST_STAGES or pipelines.micro_batches < 1:
        return
    work = work_of_stages_ns(durations)
    if not (work > 0).all():
        return
    stage = int(np.argmax(work))
    others = float(np.median(np.delete(work, stage)))
    saved_ns = step_of_ns(work, pipelines.micro_batches) - step_of_ns(
        np.full(work.size, work.mean()), pipelines.micro_batches
    )
    usual = others * _gradients(durations, stage)
    if work[stage] < max((1 + EVEN) * others, usual) or saved_ns < WORTH * durations.usual_ns:
        return
    level = float(work[stage] / work.mean() - 1)
    name = f"{durations.job.name} stage {stage}"
    evidence = {"stage_work_ns": np.rint(work).astype(int).tolist()}
    named = Named("group", "slow_passes", "uneven_stage", "stage", name, evidence)
    window = Window(0, durations.steps - 1, level, 0.0, ALWAYS)
    yield Standing(named, window, saved_ns * durations.steps, float(work[stage] / others))


def work_of_stages_ns(durations: Durations) -> Floats:
    """Work of each stage in a step: the median of its ranks [ns]; 0 where it is not known."""
    stage, normal = durations.job.pipelines.stage, durations.compute.normal_ns
    own = [normal[(stage == one) & (normal > 0)] for one in range(durations.job.pipelines.length)]
    return np.array([float(np.median(one)) if one.size else 0.0 for one in own])


def step_of_ns(work: Floats, micro_batches: int) -> float:
    """How long the passes of a step take, by the stage for which it is longest [ns].

    >>> step_of_ns(np.array([8.0, 8.0, 8.0]), 4)
    12.0
    """
    through = work + (work.sum() - work) / micro_batches
    return float(through.max())


def _gradients(durations: Durations, stage: int) -> float:
    """Gradients of a stage over those of the others, median [bytes]; 1 if it has fewer."""
    job, connections = durations.job, durations.context.connections
    stage_of = np.full(len(durations.context.flows.addresses), -1)
    stage_of[job.phases.endpoints] = job.pipelines.stage
    own = [one.one.connections for one in job.phases.classes if one.kind == "dp"]
    chosen = np.concatenate([np.empty(0, np.int64), *own])
    at = stage_of[connections.src[chosen]]
    total = connections.total_bytes[chosen].astype(np.float64)
    sent = np.bincount(at[at >= 0], total[at >= 0], job.pipelines.length)
    others = float(np.median(np.delete(sent, stage)))
    return max(1.0, float(sent[stage]) / others) if others > 0 else 1.0

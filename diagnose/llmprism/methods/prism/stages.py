"""A stage of a pipeline that works longer than the others in every step: layers are divided badly.

There is no step without it, so no comparison of steps shows it, and stages have no replicas of
other stages. But the schedule says how long the passes of a step take with any work of each stage:
:func:`passes_ns` replays it. The same total work in equal parts shows what an even division saves.

The work of a stage is what its ranks compute in a step. What nothing follows is not seen: the first
stage sends no gradients of activations. So the others are taken to work as long as the longest of
them.

Records that hold several messages hide a part of that work. So the replay has to tell how long the
passes of a step take better than if all stages worked as long as the longest.

The last stage of a healthy job has the output layer. Flows do not show layers, but gradients show
parameters, and a pass takes as much work for each of them. So a stage with more gradients may take
longer by as much. An output layer that is the embedding, too, shows in the gradients of the first
stage. Where no gradients are seen, nothing tells it from an uneven division.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from llmprism.methods.prism.culprits.base import Attribution
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.explanation import Cost
from llmprism.methods.prism.graph.durations import STEP_BEFORE
from llmprism.methods.prism.parameters import EVEN, FEWEST, SAVED, UNEVEN_SURE
from llmprism.methods.prism.persistent import Persistent
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian


def long_stages(durations: Durations) -> Iterator[Persistent]:
    """The stage that is longest in every step, if an even division would save enough."""
    pipelines = durations.job.pipelines
    if pipelines.length < FEWEST or pipelines.micro_batches < 1:
        return
    work = work_ns(durations)
    if not (work > 0).all():
        return
    stage = int(np.argmax(work))
    others = float(np.delete(work, stage).max())
    level, micro_batches = float(work[stage] / others), pipelines.micro_batches
    at_once = pipelines.deepest >= micro_batches > work.size  # with fewer, both are the same
    stages = pipelines.stage[durations.graph.nodes.rank]  # forward passes of the last send nothing
    ends = at_once and stage == work.size - 1
    longest = span_ns(durations, stages == stage) if ends else work[stage]
    work = np.where(np.arange(work.size) == stage, longest, others)
    hop, seen_ns = hop_ns(durations), max(span_ns(durations, stages >= 0), 1.0)
    takes = partial(passes_ns, micro_batches=micro_batches, hop_ns=hop, at_once=at_once)
    saved_ns = takes(work) - takes(np.full(work.size, work.mean()))
    errors = [abs(np.log(takes(one) / seen_ns)) for one in (work, np.full(work.size, longest))]
    if errors[0] > errors[1]:
        return
    if level < max(1 + EVEN, _gradients(durations, stage)) or saved_ns < SAVED * durations.usual_ns:
        return
    name = f"{durations.job.name} stage {stage}"
    evidence = {"stage_work_ns": np.rint(work).astype(int).tolist()}
    named = Attribution("group", "slow_passes", "uneven_stage", "stage", name, evidence)
    usual_ns = durations.usual_ns
    cost = Cost(usual_ns - saved_ns, usual_ns, saved_ns * durations.steps, level)
    yield Persistent(named, level - 1, cost, UNEVEN_SURE)


def work_ns(durations: Durations) -> Floats:
    """Work of each stage in a step, median of its ranks [ns]; 0 where it is not known.

    What its ranks compute from the first message of a step to the last one, gradients that are
    reduced meanwhile included. The update is before.
    """
    graph, stage = durations.graph, durations.job.pipelines.stage
    rank, place = graph.nodes.rank, graph.position
    last = np.full(stage.size, -1)
    messages = graph.nodes.are_messages[graph.nodes.operation]
    np.maximum.at(last, rank[messages], place[messages])
    own = np.flatnonzero((place >= 0) & (place <= last[rank]))
    compute = np.where(graph.parent[own] == STEP_BEFORE, np.nan, graph.compute[own])
    usual = np.nan_to_num(durations.reference.normal(compute).max(axis=1))
    work = np.bincount(rank[own], usual, stage.size)
    of_stages = [work[(stage == one) & (work > 0)] for one in range(durations.job.pipelines.length)]
    return np.array([float(np.median(one)) if one.size else 0.0 for one in of_stages])


def span_ns(durations: Durations, own: Bools) -> float:
    """From the first to the last message of some participations, median over steps [ns]."""
    nodes = durations.measured.nodes
    own = own & nodes.are_messages[nodes.operation]
    both = np.concatenate((nodes.join[own], nodes.arrive[own]))
    lasts = np.fmax.reduce(both, axis=0) - np.fmin.reduce(both, axis=0)
    return float(nanmedian(lasts[None], axis=1)[0])


def hop_ns(durations: Durations) -> float:
    """Usual time that a message takes from one stage to the next [ns]."""
    graph = durations.measured
    own = graph.transfer[graph.nodes.are_messages]
    return float(np.nan_to_num(np.nanmedian(own))) if np.isfinite(own).any() else 0.0


def passes_ns(work: Floats, micro_batches: int, hop_ns: float, *, at_once: bool) -> float:
    """How long the passes of a step take, if a stage works as long as given in it [ns].

    Each stage has as many forward passes ahead as there are stages behind it (1F1B), or all of them
    ``at_once`` (GPipe). A backward pass takes twice the time of a forward pass: it has twice the
    products of matrices (Narayanan et al., SC'21, 2.2).

    >>> passes_ns(np.array([6.0, 6.0, 6.0]), 2, 0.0, at_once=False)
    12.0
    """
    stages = work.size
    forth, back = work / micro_batches / 3, work / micro_batches * 2 / 3
    ends = np.zeros((2, stages, micro_batches))
    free, done = np.zeros(stages), np.zeros((2, stages), np.int64)
    while done[1, 0] < micro_batches:
        for stage in range(stages):
            ahead = micro_batches if at_once else min(stages - stage, micro_batches)
            number, answered = done[:, stage]
            goes_back = number - answered >= ahead or number == micro_batches
            before = stage + 1 if goes_back else stage - 1
            one = answered if goes_back else number
            way = int(goes_back)
            if one == micro_batches or (0 <= before < stages and done[way, before] <= one):
                continue
            if goes_back and before == stages and done[0, stage] <= one:
                continue
            ready = ends[0, stage, one] * way
            if 0 <= before < stages:
                ready = ends[way, before, one] + hop_ns
            free[stage] = max(free[stage], ready) + (back if goes_back else forth)[stage]
            ends[way, stage, one] = free[stage]
            done[way, stage] += 1
    return float(free.max())


def _gradients(durations: Durations, stage: int) -> float:
    """Gradients that a stage may work on, over those of the others, median [bytes]; at least 1.

    Infinite for the last stage, if none are seen.
    """
    job, connections = durations.job, durations.context.connections
    own = [one.one.connections for one in job.phases.classes if one.kind == "dp"]
    chosen = np.concatenate([np.empty(0, np.int64), *own])
    at = _stage_of_codes(durations)[connections.src[chosen]]
    total = connections.total_bytes[chosen].astype(np.float64)
    sent = np.bincount(at[at >= 0], total[at >= 0], job.pipelines.length)
    is_last = stage == sent.size - 1
    most = max(sent[stage], sent[0] * is_last)
    others = sent[(np.arange(sent.size) != stage) & (sent > 0)]
    if not others.size:
        return np.inf if is_last else 1.0
    return max(1.0, float(most / np.median(others)))


def _stage_of_codes(durations: Durations) -> Ints:
    """Stage of each address; -1 for those that are none of the job's."""
    stage = np.full(len(durations.context.flows.addresses), -1)
    stage[durations.job.phases.endpoints] = durations.job.pipelines.stage
    return stage

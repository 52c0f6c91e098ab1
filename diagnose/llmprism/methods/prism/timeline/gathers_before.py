"""Parameters that are gathered after a long wait belong to the step before that wait.

A step of the job ends in its longest silence. Stages that end their gradients early wait for the
norm of all gradients, or for an embedding that two stages share, before they update and gather
parameters. Where that wait is the longest silence, the gathers count to the next step, and the
first step lacks them. They belong to the step before it if the first stage gathers nothing during
its first forward pass: gathers of the next step overlap with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.phases.moments import moments_of, period_of, repaired
from llmprism.methods.prism.phases.phases import FEWEST, Phases, moved
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats

MOST = 0.75  # share of steps and connections that must agree
NEAR = 0.005  # of the bytes of a step


def with_gathers_before(
    flows: FlowTable, connections: Connections, phases: Phases, pipelines: Pipelines
) -> Phases:
    """``phases`` with gathers in the step before, where they precede the passes of their own."""
    if pipelines.length == 1 or not pipelines.forward_ns > 0:
        return phases
    first = pipelines.stage == 0
    sent = np.nan_to_num(np.fmin.reduce(pipelines.first_sent[first], axis=0), nan=-np.inf)
    sent += pipelines.origin_ns
    begun = sent - pipelines.forward_ns
    if _gathers_in_passes(flows, phases, phases.endpoints[first], begun, sent):
        return phases
    classes = [_of_step_before(connections, phases.count, one, sent) for one in phases.classes]
    if all(one is before for one, before in zip(classes, phases.classes, strict=True)):
        return phases
    dp = moments_of(flows, moved(classes, "dp"), phases.endpoints, phases.count)
    moments = phases.moments | {"dp": dp}
    moments["dp"] = repaired(dp, phases.dp_group, period_of(moments))
    return replace(phases, classes=tuple(classes), moments=moments)


def _gathers_in_passes(
    flows: FlowTable, phases: Phases, ranks: Codes, begun: Floats, sent: Floats
) -> bool:
    """Whether some of the ``ranks`` move data-parallel bytes during most first forward passes.

    Those are from ``begun`` until the activation is ``sent``; of a record, the middle counts.
    """
    busy = np.zeros(phases.count, np.bool_)
    for one in phases.classes:
        if one.kind == "dp":
            own = one.one.traffic.row[np.isin(flows.src[one.one.traffic.row], ranks)]
            middle = np.sort((flows.start_ns[own] + flows.end_ns[own]) // 2)
            busy |= np.searchsorted(middle, sent) > np.searchsorted(middle, begun)
    return phases.count < FEWEST or bool(busy[1:].mean() > 1 - MOST)


def _of_step_before(connections: Connections, count: int, one: KindOf, sent: Floats) -> KindOf:
    """``one`` with what begins before the first activation is ``sent`` in the step before.

    If the first step lacks it. What belongs to no step belongs to the one that began last, as
    what follows the last step does, unless steps then move more than usual.
    """
    known = one.step >= 0
    if one.kind != "dp" or not known.any():
        return one
    traffic = one.one.traffic
    early: Bools = known & (traffic.start_ns < sent[np.maximum(one.step, 0)])
    gathers = replace(one, step=np.where(early, one.step, -1)).volumes(connections, count)
    volume = one.volumes(connections, count)
    usual = np.maximum(1.0, np.median(volume, axis=1))
    share = np.median(gathers[:, 1:], axis=1) / usual
    lacks = np.abs(volume[:, 0] / usual - (1 - share)) <= NEAR
    if ((share > NEAR) & lacks).mean() < MOST:
        return one
    parted = np.where(early, one.step - 1, one.step)
    loose = ~known & (traffic.start_ns > traffic.start_ns[known].min())
    begun = np.searchsorted(np.maximum.accumulate(sent), traffic.start_ns, side="right") - 1
    found = replace(one, step=np.where(loose, begun, parted).astype(one.step.dtype))
    if (found.volumes(connections, count).max(axis=1) <= (1 + NEAR) * usual).all():
        return found
    return replace(one, step=parted.astype(one.step.dtype))

"""Whether what repeats may be a micro-batch of a step that is longer than the records.

In the middle of a step a stage of a pipeline sends one activation and gets one gradient in every
micro-batch, again and again. Records that end before the first step does show nothing else, and a
micro-batch looks like a step. A step of several micro-batches has several messages each way, and
gradients between replicas end it. So nothing is believed where all that a job sends is one message
each way between couples of endpoints, or a few times two. Replicas that exchange gradients in
couples send both ways at once; stages do not.

Gradients are reduced in buckets, which may be of one size. Records of a step or two then repeat
bucket after bucket, with a long silence in between. Steps of training are the other way round: the
network rests within each, while the ranks compute, and longer silences are rare. A step that is one
bucket rests for the forward pass at least.

Micro-batches of sharded parameters are alike, too; a few updates between them show that they may be
parts of steps (:mod:`~llmprism.methods.prism.cycles.seldom_updates`).
"""

from __future__ import annotations

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.classes.rings_apart import with_rings_apart
from llmprism.methods.prism.cycles.seldom_updates import may_be_micro_batches
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.jobs.resolution import Refusal
from llmprism.methods.prism.kinds.characters import character_of
from llmprism.methods.prism.parameters import FEWEST, HALF, QUARTER, SURE
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.silences import RESTS
from llmprism.methods.prism.segment.steps import find_steps
from llmprism.methods.prism.steps.stepping import Part, division_of

NEW = True
SINGLE, DOUBLE = 1.5, 2.5  # messages of a connection in a cycle, below which there is one, or two
FEW = 6  # cycles: two messages each way may repeat by chance in fewer
PARTIAL = Refusal(
    "all that repeats is one message each way between couples of endpoints, as in a micro-batch: "
    "the records may end before the first step does",
    "a recording of several steps",
)
BUCKETS = Refusal(
    "what repeats follows without a rest, and most of the time nothing moves: these may be buckets "
    "of gradients, and the records may hold only a step or two",
    "a recording of several steps",
)
MICRO_BATCHES = Refusal(
    "equal parts follow each other, but only some of them end with a silence in which an optimizer "
    "may update parameters: they may be micro-batches, and the records hold a few steps only",
    "a recording of several steps",
)


def partial_steps(connections: Connections, job: Job, nodes: int) -> Refusal | None:
    """Return why the steps of ``job`` may be parts of a step; None if they are steps.

    Short attempts have the steps of another one.
    """
    every = [part for epoch in job.epochs for part in epoch]
    parts = [part for part in every if part.stepping.count >= FEWEST]
    if not parts:
        return None
    if all(_are_buckets(part) for part in parts):
        return BUCKETS
    if any(are_micro_batches(part) for part in _sure(parts)):
        return MICRO_BATCHES
    return PARTIAL if all(_passes_only(connections, part, nodes) for part in parts) else None


def _sure(parts: list[Part]) -> list[Part]:
    """Those of the ``parts`` that show the steps clearly; all of them if none does.

    All take the same steps. Where records are lost, a part that is unclear about them shows
    silences that the others do not.
    """
    return [part for part in parts if part.stepping.quality >= SURE] or parts


def stepped(flows: FlowTable, connections: Connections, component: Component, single: bool) -> Part:
    """``component`` and its steps; ``single``: whether each of its servers has one rank.

    If it shows none, or they may be micro-batches, the two directions of its rings count apart.
    """
    whole = Part(component, find_steps(component, flows.recorded_ns, single))
    if whole.stepping.count and not are_micro_batches(whole):
        return whole
    apart = with_rings_apart(flows, connections, component)
    if apart is None:
        return whole
    part = Part(apart, find_steps(apart, flows.recorded_ns, single))
    return part if part.stepping.count and not are_micro_batches(part) else whole


def are_micro_batches(part: Part) -> bool:
    """Whether the steps of ``part`` may be micro-batches."""
    if NEW:
        return False
    stepping = part.stepping
    lead = part.component.classes[stepping.reference].traffic
    return may_be_micro_batches(lead, division_of(stepping))


def _are_buckets(part: Part) -> bool:
    """Whether its steps leave no time to compute, and ``part`` is silent most of the time."""
    start_ns, end_ns = part.stepping.start_ns, part.stepping.end_ns
    period_ns = float(np.median(np.diff(start_ns)))
    rests_ns = start_ns[1:] - end_ns[:-1]
    silent_ns = float(np.maximum(rests_ns, 0).sum())  # steps that are slow are long, not silent
    silent = silent_ns > (1 - HALF) * float(end_ns[-1] - start_ns[0])
    records = sum(len(one.traffic) for one in part.component.classes)
    connections = sum(one.connections.size for one in part.component.classes)
    single = records <= SINGLE * connections * part.stepping.count
    return silent and float(np.median(rests_ns)) < (QUARTER if single else RESTS) * period_ns


def _passes_only(connections: Connections, part: Part, nodes: int) -> bool:
    """Whether every class of ``part`` sends single messages, now one way and now the other."""
    classes, stepping = part.component.classes, part.stepping
    if not all(one.two_way for one in classes):
        return False
    most = DOUBLE if stepping.count < FEW else SINGLE
    return all(
        own.messages <= most and own.together < QUARTER
        for own in (
            character_of(connections, one, step, stepping.count, nodes)
            for one, step in zip(classes, stepping.step_of, strict=True)
        )
    )

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
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.jobs.resolution import Refusal
from llmprism.methods.prism.kinds.characters import character_of
from llmprism.methods.prism.parameters import FEWEST, HALF, QUARTER
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.silences import RESTS
from llmprism.methods.prism.steps.stepping import Part

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
    return PARTIAL if all(_passes_only(connections, part, nodes) for part in parts) else None


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

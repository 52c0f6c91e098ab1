"""Whether the few steps of a job without a pipeline may be micro-batches of fewer, longer steps.

Ranks that share gradients, or parameters, reduce gradients in every micro-batch, and so does a
trainer that accumulates them without saying so to its library. What repeats is then a micro-batch,
and a step ends with an update, which sends nothing. If shards are inside servers, or the recording
ends before the first gathers, that silence is all that shows a step: it is longer by an update than
the others, which last for a forward pass. Enough steps show this
(:mod:`~llmprism.methods.prism.steps.silences`). Few do not.

A reduction and a gather of as many bytes, in one burst each, look like two steps as well, if the
network is so slow that nobody rests for long.

Parts are surely steps if each gathers what an update made of the gradients before, if it moves each
message several times, as several micro-batches do, or if ranks rest longer than a forward pass
takes: they accumulate gradients, or wait for their host.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.classes.sizes import cells, distinct, fitting
from llmprism.methods.prism.cycles.divisions import steps_from
from llmprism.methods.prism.cycles.updates import holds_updates
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.parameters import MOSTLY, QUARTER
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.silences import ACCUMULATES, MOST_MICRO_BATCHES, RESTS, SHOWN
from llmprism.methods.prism.steps.stepping import Part, division_of
from llmprism.numerics.arrays import Bools

ENOUGH = SHOWN * MOST_MICRO_BATCHES  # parts in which longer silences would show
DENSE = 10.0  # ratio of the rests between bursts to those inside, which show no computing
DOUBTED = 0.7  # confidence of steps: most recordings begin and end in the middle of training
REASON = (
    "few parts that each reduce gradients once, and rest no longer than a forward pass takes: they "
    "may be micro-batches"
)


def may_be_accumulated(connections: Connections, job: Job, lone: Bools) -> bool:
    """Whether the steps of all parts of ``job`` may be micro-batches.

    ``lone``: which endpoints are the only NIC of their server.
    """
    parts = [part for epoch in job.epochs for part in epoch]
    if sum(part.stepping.count for part in parts) >= ENOUGH * len(parts):
        return False
    return all(_may_be(connections, part, lone) for part in parts)


def has_single_ranks(connections: Connections, component: Component, lone: Bools) -> bool:
    """Whether each server of ``component`` has one rank, as far as NICs and connections show.

    Several connections from one NIC to another may be those of several ranks.
    """
    own = np.concatenate([one.connections for one in component.classes])
    pairs = np.unique((connections.src[own], connections.dst[own]), axis=1)
    return bool(lone[component.endpoints].all() and pairs.shape[1] == own.size)


def _may_be(connections: Connections, part: Part, lone: Bools) -> bool:
    """Whether the steps of one ``part`` may be micro-batches."""
    component, stepping = part.component, part.stepping
    lead = component.classes[stepping.reference]
    division = steps_from(lead.traffic, division_of(stepping).firsts[1:])
    if len(division) < 2 or holds_updates(lead.traffic, division):
        return False
    often = [
        distinct(np.sort(size))
        for *_, size in cells(
            connections, lead, stepping.step_of[stepping.reference], stepping.count
        )
    ]
    once = [int(np.gcd.reduce(times)) == 1 for _, times in often]
    if sum(once) < MOSTLY * len(once):
        return False
    gathers = [fitting(*each) == [1 / 2] for each in often]
    single = has_single_ranks(connections, component, lone)
    in_passes = single or sum(gathers) >= MOSTLY * len(gathers) > 0
    rest_ns = lead.traffic.rests_ns()
    usual_ns = float(np.median(rest_ns[division.cuts - 1]))
    inside_ns = np.delete(rest_ns, division.cuts - 1).max(initial=0)
    least = ACCUMULATES
    if in_passes:
        least = QUARTER if DENSE * inside_ns <= usual_ns else RESTS
    return usual_ns < least * division.usual_ns(lead.traffic)

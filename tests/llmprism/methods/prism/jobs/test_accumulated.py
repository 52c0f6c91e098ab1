"""Few steps that may be micro-batches: each reduces gradients once, and hardly rests."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.jobs.accumulated import may_be_accumulated
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.segment.stepping import Part
from llmprism.methods.prism.segment.steps import find_steps
from rings import ring
from small import FOUR, job

MEMBERS = 4
BUCKETS = [320, 110, 130, 300]  # bytes; none is the double of another
SHARDED = [320, 160, 110, 55, 160, 55]  # parameters gathered in both passes, gradients reduced


def parts(count: int, sizes: list[int], rest_ms: float, every_ms: float = 10.0) -> Component:
    """Equal parts: a message of 1 ms ``every_ms``, of each of the ``sizes``, and then a rest."""
    part_ms = every_ms * (len(sizes) - 1) + 1 + rest_ms
    messages = [part * part_ms + every_ms * i for part in range(count) for i in range(len(sizes))]
    own = ring(messages, members=MEMBERS).classes[0]
    size = np.repeat(np.tile(sizes, count), MEMBERS)
    one = replace(own, traffic=replace(own.traffic, size=size))
    return Component(np.arange(MEMBERS, dtype=np.int32), (one,))


def doubted(component: Component, lone: bool = False) -> bool:
    """Whether the steps of a job that is this ring may be micro-batches."""
    traffic = component.classes[0].traffic
    hops = np.arange(MEMBERS)
    connections = SimpleNamespace(src=hops, dst=(hops + 1) % MEMBERS, of_row=traffic.couple)
    stepping = find_steps(component)
    assert stepping.count
    found = Job(component.endpoints, ((Part(component, stepping),),))
    return may_be_accumulated(connections, found, np.full(MEMBERS, lone))


@pytest.mark.parametrize(
    ("count", "sizes", "rest_ms", "expected"),
    [
        (6, BUCKETS, 15.0, True),
        (30, BUCKETS, 15.0, False),  # an update after every k-th part would show
        (6, BUCKETS, 60.0, False),  # too long for a forward pass
        (6, BUCKETS * 2, 15.0, False),  # several micro-batches
        (6, [*BUCKETS, *[size // 2 for size in BUCKETS]], 25.0, False),  # holds an update
        (6, SHARDED, 12.0, False),  # shards are gathered in forward passes, so none is silent
    ],
)
def test_few_parts_that_reduce_gradients_once_may_be_micro_batches(count, sizes, rest_ms, expected):
    assert doubted(parts(count, sizes, rest_ms)) == expected


@pytest.mark.parametrize(
    ("rest_ms", "every_ms", "expected"),
    [(15, 10, False), (0.1, 1, True), (0.5, 1, True), (2, 1, False)],
)
def test_ranks_alone_on_their_servers_hide_no_shards(rest_ms, every_ms, expected):
    """Shards in sight are gathered all through the passes, which then hardly rest.

    A burst may be a reduction or a gather alone, if no forward pass follows it.
    """
    assert doubted(parts(6, BUCKETS, rest_ms, every_ms), lone=True) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "sure"),
    [
        ("dp: 8, zero_stage: 3, hybrid_shards: 4, micro_batches: 8, steps: 1", False),
        ("dp: 8, zero_stage: 1, micro_batches: 4, steps: 4", True),
    ],
)
def test_micro_batches_of_one_step_are_doubted(scored, keys, sure):
    """Shards are gathered inside servers, gradients reduced across them in every micro-batch."""
    cluster = FOUR.replace("servers: 6", "servers: 2")
    found = scored(cluster + "jobs:\n" + job("a", keys)).diagnosis
    assert ((found.steps["confidence"] >= 0.8).all()) == sure
    assert ("steps_doubted" in found.layouts["evidence"].iloc[0]) != sure

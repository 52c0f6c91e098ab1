"""The elements of a schedule.

A schedule is data, not behaviour: for one stage it lists the passes in order. The messages that
a pass waits for, and those that it sends, follow from its kind and are handled by the
worker.

A stage may hold several *chunks* of layers (virtual stages): chunk c of stage i holds part
c p + i of the model, so an activation leaves the last stage for the next chunk of the first.
A backward pass may be split: BACKWARD then computes the gradient that the previous stage waits
for, and WEIGHTS, at any later time, the gradients of the parameters.
"""

from __future__ import annotations

from typing import NamedTuple

FORWARD, BACKWARD, WEIGHTS = 0, 1, 2
PASS_SPANS = ("fwd", "bwd", "wgrad")
"""Kind of the span of each kind of pass in the truth."""


class Work(NamedTuple):
    """One piece of a stage's work: a pass of one micro-batch through one chunk of layers."""

    kind: int
    micro_batch: int
    chunk: int = 0


class Place(NamedTuple):
    """The stage and the pipeline of a schedule.

    Attributes
    ----------
    stage, stages : number of the stage, from 0, and how many there are.
    micro_batches : of one step.
    chunks : of layers that every stage holds.
    """

    stage: int
    stages: int
    micro_batches: int
    chunks: int = 1


def gradient_kind(work: list[Work]) -> int:
    """The kind of pass after which gradients of parameters are complete."""
    return WEIGHTS if any(piece.kind == WEIGHTS for piece in work) else BACKWARD

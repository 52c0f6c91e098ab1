"""The elements of a schedule.

A schedule is data, not behaviour: for one stage it lists the passes in order. The messages that
a pass waits for, and those that it sends, follow from its kind and are handled by the
worker.

A stage may hold several *chunks* of layers (virtual stages): chunk c of stage i holds part
c p + i of the model, so an activation leaves the last stage for the next chunk of the first.
A backward pass may be split: BACKWARD then computes the gradient that the previous stage waits
for, and WEIGHTS, at any later time, the gradients of the parameters. A schedule that splits only
some of them has WHOLE for the others.

A schedule may place parts in another way, and one part on several stages: then the micro-batch
decides which of them has it. Two passes that follow each other may run *beside* each other: each
computes while the other exchanges activations among parallel ranks.
"""

from __future__ import annotations

from typing import NamedTuple

FORWARD, BACKWARD, WEIGHTS, WHOLE = 0, 1, 2, 3
PASS_SPANS = ("fwd", "bwd", "wgrad", "bwd")
"""Kind of the span of each kind of pass in the truth."""


class Work(NamedTuple):
    """One piece of a stage's work: a pass of one micro-batch through one chunk of layers.

    ``beside`` is whether it runs beside the next piece.
    """

    kind: int
    micro_batch: int
    chunk: int = 0
    beside: bool = False

    @property
    def direction(self) -> int:
        """FORWARD or BACKWARD: the direction of its messages."""
        return FORWARD if self.kind == FORWARD else BACKWARD


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


def gradient_kinds(work: list[Work]) -> tuple[int, ...]:
    """The kinds of passes after which gradients of parameters are complete."""
    split = any(piece.kind == WEIGHTS for piece in work)
    return (WEIGHTS, WHOLE) if split else (BACKWARD,)

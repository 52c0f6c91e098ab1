"""What every way of data parallelism has in common.

A strategy says which collectives of gradients and parameters come where: inside the passes,
as points of their programs, and around the optimizer. It works on *families* of parameters:
those that all replicas hold, and those of experts, which fewer do.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import ClassVar

import simpy

from prism_sim.scenario.job import Job
from prism_sim.training.costs import buckets
from prism_sim.training.layers import Unit
from prism_sim.training.program import Joins, Point
from prism_sim.truth import NO_MICRO_BATCH

Process = Generator[simpy.Event, object, None]


@dataclass(frozen=True)
class Pass:
    """Which pass of the step a program is for.

    Attributes
    ----------
    forward : it is a forward pass.
    parameters : it needs the layers' parameters (a weight-gradient pass does not).
    gradients : after it, gradients of parameters are complete.
    chunk : of the stage's layers.
    first, last : whether the step has no such pass through the chunk before, or behind.
    """

    forward: bool
    parameters: bool
    gradients: bool
    chunk: int
    first: bool
    last: bool


@dataclass(frozen=True)
class Family:
    """Parameters that are kept in step by one group of ranks.

    Attributes
    ----------
    seat : the worker's place in that group.
    chunks : parameters of one rank by chunk of layers, in the order of the backward pass.
    units : the same by chunk and unit (transformer block or the like), in forward order.
    """

    seat: Joins
    chunks: tuple[tuple[int, ...], ...]
    units: tuple[tuple[int, ...], ...]


class DataParallel:
    """The contract, and a strategy that never communicates.

    Parameters
    ----------
    job : the job as the scenario has it.
    families : what there is to keep in step.
    units : by chunk, the units that the pass goes through in forward order.

    Attributes
    ----------
    pending : ends of collectives that a pass will wait for, by slot.
    """

    reduction: ClassVar[str] = "all_reduce"
    sharded: ClassVar[bool] = False
    """Whether each rank keeps only a part of the optimizer's state."""

    def __init__(
        self, job: Job, families: Sequence[Family], units: Sequence[Sequence[Unit]]
    ) -> None:
        self.job = job
        self.families = families
        self.units = units
        self.pending: dict[str, simpy.Event] = {}
        self._buckets = [[buckets(job, chunk) for chunk in f.chunks] for f in families]

    def points(self, of: Pass) -> list[Point]:
        """What the strategy does inside the pass ``of``."""
        return []

    def begin(self, step: int) -> None:
        """Join what comes before the first forward of ``step``."""

    def settle(self, step: int) -> Process:
        """Everything between the last backward and the optimizer."""
        yield from self.wait()

    def publish(self, step: int) -> Process:
        """Everything behind the optimizer that belongs to ``step``."""
        yield from ()

    def wait(self) -> Process:
        """Wait for all that has been joined."""
        for family in self.families:
            if family.seat.last is not None:
                yield family.seat.last

    def join_all(self, operation: str, bytes_each: int, step: int, backwards: bool = True) -> None:
        """Join ``operation`` for every bucket, in the order of the backward pass or reversed."""
        for family, by_chunk in zip(self.families, self._buckets, strict=True):
            order = [size for sizes in reversed(by_chunk) for size in sizes]
            for size in order if backwards else reversed(order):
                family.seat.join(operation, size * bytes_each, step, NO_MICRO_BATCH)


def shares(sizes: Sequence[int]) -> list[Fraction]:
    """The fraction of the whole that is done after each of ``sizes``; alike if all are nothing.

    >>> [str(share) for share in shares([1, 1, 2])]
    ['1/4', '1/2', '1']
    >>> [str(share) for share in shares([0, 0])]
    ['1/2', '1']
    """
    whole = sum(sizes)
    if not whole:  # such as a stage with nothing but the embedding
        return [Fraction(i + 1, len(sizes)) for i in range(len(sizes))]
    return [Fraction(done, whole) for done in accumulate(sizes)]

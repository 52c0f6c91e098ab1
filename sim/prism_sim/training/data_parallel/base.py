"""The base of all data-parallel strategies.

A strategy has two parts: its options in a scenario (:class:`StrategyBase`), and the actions of each
worker (:class:`DataParallel`). It determines the collectives of gradients and parameters:
inside the passes, as points of their programs, and around the optimizer. It handles *sets* of
parameters: those that all replicas hold, and those of experts, which fewer ranks hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import ClassVar

import simpy

from prism_sim.scenario.base import Closed, Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.layers import Unit
from prism_sim.training.program import Communicator, Point
from prism_sim.truth import NO_MICRO_BATCH

Process = Generator[simpy.Event, object, None]


@dataclass(frozen=True)
class Pass:
    """The pass of the step that a program is for.

    Attributes
    ----------
    forward : it is a forward pass.
    parameters : it needs the layers' parameters (a weight-gradient pass does not).
    gradients : after it, gradients of parameters are complete.
    chunk : of the stage's layers.
    first, last : whether it is the step's first, or last, such pass through the chunk.
    """

    forward: bool
    parameters: bool
    gradients: bool
    chunk: int
    first: bool
    last: bool


@dataclass(frozen=True)
class ParameterSet:
    """Parameters that one group of ranks keeps equal.

    Attributes
    ----------
    communicator : the worker's communicator of that group.
    chunks : parameters of one rank by chunk of layers, in the order of the backward pass.
    units : the same by chunk and unit (transformer block or the like), in forward order.
    """

    communicator: Communicator
    chunks: tuple[tuple[int, ...], ...]
    units: tuple[tuple[int, ...], ...]


class DataParallel:
    """Data-parallel actions of one worker; the base class never communicates.

    Parameters
    ----------
    job : the configuration of the job.
    sets : the parameters, by the groups that keep them equal.
    units : by chunk, the units of the pass in forward order.

    Attributes
    ----------
    pending : ends of collectives that a pass will wait for, by slot.
    """

    reduction: ClassVar[str] = "all_reduce"

    def __init__(
        self, job: JobConfig, sets: Sequence[ParameterSet], units: Sequence[Sequence[Unit]]
    ) -> None:
        self.job = job
        self.sets = sets
        self.units = units
        self.pending: dict[str, simpy.Event] = {}
        self._buckets = [[buckets(job, chunk) for chunk in f.chunks] for f in sets]

    def points(self, of: Pass) -> list[Point]:
        """The actions of the strategy inside the pass ``of``."""
        return []

    def begin(self, step: int) -> None:
        """Join the collectives before the first forward of ``step``."""

    def settle(self, step: int) -> Process:
        """Everything between the last backward and the optimizer."""
        yield from self.wait()

    def publish(self, step: int) -> Process:
        """Everything of ``step`` after the optimizer."""
        yield from ()

    def wait(self) -> Process:
        """Wait for all joined collectives."""
        for each in self.sets:
            if each.communicator.last is not None:
                yield each.communicator.last

    def join_all(self, operation: str, bytes_each: int, step: int, backwards: bool = True) -> None:
        """Join ``operation`` for every bucket, in the order of the backward pass or reversed."""
        for each, by_chunk in zip(self.sets, self._buckets, strict=True):
            order = [size for sizes in reversed(by_chunk) for size in sizes]
            for size in order if backwards else reversed(order):
                each.communicator.join(operation, size * bytes_each, step, NO_MICRO_BATCH)


class StrategyBase(Closed, ABC):
    """A strategy in a scenario; each kind adds its options as fields.

    Attributes
    ----------
    zero_stage : its stage of ZeRO, if it has one.
    sharded : whether each rank keeps only a part of the optimizer's state.
    gathers_per_layer : gathers and reductions of one layer's parameters in a micro-batch.
    gathers_after_step : whether updated parameters are gathered once a step.
    all_reduces : whether its groups use the algorithm that the job chose for all-reduces; they use
        rings otherwise.
    spans : kinds of spans of its collectives in the truth.
    """

    zero_stage: ClassVar[int | None] = None
    sharded: ClassVar[bool] = False
    gathers_per_layer: ClassVar[int] = 0
    gathers_after_step: ClassVar[bool] = False
    all_reduces: ClassVar[bool] = False
    spans: ClassVar[tuple[str, ...]] = ("all_reduce",)

    kind: str

    @abstractmethod
    def attach(
        self, job: JobConfig, sets: Sequence[ParameterSet], units: Sequence[Sequence[Unit]]
    ) -> DataParallel:
        """The actions of one worker of ``job``."""

    def all_spans(self, job: JobConfig, phases: Sequence[str]) -> tuple[str, ...]:
        """Kinds of spans of its collectives in the truth of ``job``.

        ``phases`` are those of the job's algorithm for all-reduces. Hybrid sharding adds
        all-reduces; collectives of experts' parameters have own kinds.
        """
        own = (*self.spans, *(("all_reduce",) if job.hybrid_shards else ()))
        own += tuple(phases) if self.all_reduces else ()
        return (*own, *(f"expert_{name}" for name in own if job.mixture))

    def optimizer_shards(self, job: JobConfig) -> int:
        """Ranks that share one copy of the optimizer's state."""
        return (job.hybrid_shards or job.members) if self.sharded else 1

    def sharding(self, job: JobConfig) -> str:
        """What the ranks of ``job`` share: none, zero1, zero2, zero3, or hybrid."""
        shards = self.optimizer_shards(job)
        if shards == 1:
            return "none"
        return self.kind if shards == job.members else "hybrid"

    def remarks(self, job: JobConfig, at: Loc) -> Remarks:
        """Errors if ``job`` (at ``at`` in the scenario) cannot use this strategy."""
        key = (*at, "data_parallel" if self.zero_stage is None else "zero_stage")
        if job.hybrid_shards is not None and not self.sharded:
            what = f"hybrid_shards shards what {self.label} does not shard"
            how = "raise zero_stage, or use all_reduce: hierarchical"
            yield Remark((*at, "hybrid_shards"), what, how, (key,))
        if job.overlap_param_gather and not self.gathers_after_step:
            what = f"overlap_param_gather has nothing to overlap with {self.label}"
            yield Remark((*at, "overlap_param_gather"), what, "use ZeRO 1 or 2", (key,))

    @property
    def label(self) -> str:
        """The strategy as in a scenario."""
        stage = self.zero_stage
        return f"data_parallel {self.kind}" if stage is None else f"zero_stage {stage}"


def buckets(job: JobConfig, parameters: tuple[int, ...]) -> list[int]:
    """Parameters in each gradient bucket, in the order in which they fill up.

    The matrix that reaches the limit closes a bucket, so sizes follow layer boundaries and differ;
    the last bucket holds the rest.
    """
    limit = job.bucket_limit_params
    if limit is None:
        return [sum(parameters)]
    filled: list[int] = []
    held = 0
    for size in parameters:
        held += size
        if held >= limit:
            filled.append(held)
            held = 0
    return [*filled, held] if held else filled


def shares(sizes: Sequence[int]) -> list[Fraction]:
    """The fraction of the whole after each of ``sizes``; equal parts if all are 0.

    >>> [str(share) for share in shares([1, 1, 2])]
    ['1/4', '1/2', '1']
    >>> [str(share) for share in shares([0, 0])]
    ['1/2', '1']
    """
    whole = sum(sizes)
    if not whole:  # such as a stage with nothing but the embedding
        return [Fraction(i + 1, len(sizes)) for i in range(len(sizes))]
    return [Fraction(done, whole) for done in accumulate(sizes)]

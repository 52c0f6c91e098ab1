"""The strategies: DDP (ZeRO stage 0) and ZeRO-1 to 3.

Whole gradients are reduced once a step with DDP and ZeRO-1.

Buckets are reduced when the last micro-batch's backward pass fills them, or all after it. With
ZeRO-1 the reduction leaves each rank the part for its share of the optimizer's state. Updated
parameters are gathered after the optimizer, or at the start of the next step, where
the forward pass waits for each bucket only when it needs it.

References: Li et al., PyTorch distributed, VLDB'20 (buckets); Rajbhandari et al., ZeRO,
SC'20; Megatron-Core's distributed optimizer (``overlap_param_gather``).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Literal

from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.data_parallel.base import (
    DataParallel,
    ParameterSet,
    Pass,
    Process,
    StrategyBase,
    shares,
)
from prism_sim.training.layers import Unit
from prism_sim.training.program import Await, Join, Point
from prism_sim.truth import NO_MICRO_BATCH


class Replicated(DataParallel):
    """Gradients are all-reduced, every rank updates all parameters."""

    def points(self, of: Pass) -> list[Point]:
        return self._reductions(of) if self._reduces(of) else []

    def settle(self, step: int) -> Process:
        if not self.job.overlap_gradients:
            self.join_all(self.reduction, self.job.gradient_bytes, step)
        yield from self.wait()

    def _reduces(self, of: Pass) -> bool:
        return of.gradients and of.last and self.job.overlap_gradients

    def _reductions(self, of: Pass) -> list[Point]:
        """A reduction at each point where a bucket is full."""
        width = self.job.gradient_bytes
        return [
            (at, Join(each.communicator, self.reduction, size * width))
            for each, by_chunk in zip(self.sets, self._buckets, strict=True)
            for at, size in zip(shares(by_chunk[of.chunk]), by_chunk[of.chunk], strict=True)
        ]


class ShardedOptimizer(Replicated):
    """ZeRO-1: gradients are reduce-scattered, updated parameters gathered."""

    reduction: ClassVar[str] = "reduce_scatter"

    def points(self, of: Pass) -> list[Point]:
        if of.forward and of.first and self.job.overlap_param_gather:
            return self._waits(of)
        return super().points(of)

    def begin(self, step: int) -> None:
        if not step or not self.job.overlap_param_gather:
            return
        width = self.job.parameter_bytes
        for f, each in enumerate(self.sets):
            for chunk, sizes in enumerate(self._buckets[f]):
                for b in reversed(range(len(sizes))):
                    ended = each.communicator.join(
                        "all_gather", sizes[b] * width, step, NO_MICRO_BATCH
                    )
                    self.pending[_slot(f, chunk, b)] = ended

    def publish(self, step: int) -> Process:
        if not self.job.overlap_param_gather:
            self.join_all("all_gather", self.job.parameter_bytes, step)
            yield from self.wait()

    def _waits(self, of: Pass) -> list[Point]:
        """A wait at each point where the forward pass needs the first parameters of a bucket."""
        points: list[Point] = []
        for f in range(len(self.sets)):
            sizes = self._buckets[f][of.chunk]
            begins = [Fraction(0), *shares(sizes[::-1])]
            for at, b in zip(begins, reversed(range(len(sizes))), strict=False):
                points.append((at, Await(_slot(f, of.chunk, b))))
        return points


class ShardedGradients(ShardedOptimizer):
    """ZeRO-2: ranks do not store whole gradients, so those of every micro-batch are scattered."""

    def _reduces(self, of: Pass) -> bool:
        return of.gradients

    def settle(self, step: int) -> Process:
        yield from self.wait()


class Plain(StrategyBase):
    """Replicas with whole gradients, all-reduced once a step (DDP, ZeRO stage 0)."""

    zero_stage: ClassVar[int | None] = 0
    all_reduces: ClassVar[bool] = True

    kind: Literal["ddp"] = "ddp"

    def attach(
        self, job: JobConfig, sets: Sequence[ParameterSet], units: Sequence[Sequence[Unit]]
    ) -> DataParallel:
        return Replicated(job, sets, units)


class Zero1(StrategyBase):
    """The optimizer's state is sharded (ZeRO stage 1)."""

    zero_stage: ClassVar[int | None] = 1
    sharded: ClassVar[bool] = True
    gathers_after_step: ClassVar[bool] = True
    spans: ClassVar[tuple[str, ...]] = ("reduce_scatter", "all_gather")

    kind: Literal["zero1"] = "zero1"

    def attach(
        self, job: JobConfig, sets: Sequence[ParameterSet], units: Sequence[Sequence[Unit]]
    ) -> DataParallel:
        return ShardedOptimizer(job, sets, units)


class Zero2(StrategyBase):
    """Gradients are sharded too (ZeRO stage 2)."""

    zero_stage: ClassVar[int | None] = 2
    sharded: ClassVar[bool] = True
    gathers_after_step: ClassVar[bool] = True
    spans: ClassVar[tuple[str, ...]] = ("reduce_scatter", "all_gather")

    kind: Literal["zero2"] = "zero2"

    def attach(
        self, job: JobConfig, sets: Sequence[ParameterSet], units: Sequence[Sequence[Unit]]
    ) -> DataParallel:
        return ShardedGradients(job, sets, units)


def _slot(number: int, chunk: int, bucket: int) -> str:
    return f"parameters {number} {chunk} {bucket}"


# ZeRO-3, or FSDP: parameters are sharded, and gathered only while they are used.
#
# The unit is a transformer block (embedding and head are units of their own). Each forward pass
# gathers one unit after another, the next one while the present one computes, and frees them; each
# backward pass gathers them again in reverse and reduce-scatters every unit's gradients. So a
# micro-batch transfers its parameters twice and its gradients once, each (n - 1) / n of them: 1.5
# times the volume of an all-reduce.
#
# References: Rajbhandari et al., ZeRO, SC'20, section 7.3; Zhao et al., PyTorch FSDP, VLDB'23,
# section 3.3 (prefetching, and one unit in flight at a time).


class FullySharded(DataParallel):
    """Parameters, gradients and optimizer state are all sharded."""

    reduction: ClassVar[str] = "reduce_scatter"

    def __init__(
        self,
        job: JobConfig,
        sets: Sequence[ParameterSet],
        units: Sequence[Sequence[Unit]],
        waits: bool = False,
    ) -> None:
        super().__init__(job, sets, units)
        self._waits = waits

    def points(self, of: Pass) -> list[Point]:
        return [point for each in self.sets for point in self._of_set(each, of)]

    def _of_set(self, parameters: ParameterSet, of: Pass) -> list[Point]:
        """Gather the next unit, wait for this one; gradients are sent when a unit is complete."""
        sizes = parameters.units[of.chunk]
        order = list(range(len(sizes)))
        if not of.forward:
            order.reverse()
        ends = shares([self.units[of.chunk][unit].weight for unit in order])
        points: list[Point] = []
        for i, (unit, begin) in enumerate(zip(order, [Fraction(0), *ends], strict=False)):
            if of.parameters:
                coming = order[i + (i > 0) : i + 2]
                for ahead in coming:
                    points.append((begin, self._gather(parameters, of.chunk, ahead)))
                    if self._waits:
                        points.append((begin, Await(_unit_slot(of.chunk, ahead))))
                points.append((begin, Await(_unit_slot(of.chunk, unit))))
            if of.gradients:
                size = sizes[unit] * self.job.gradient_bytes
                slot = f"gradients {unit}" if self._waits else ""
                reduce = Join(parameters.communicator, self.reduction, size, slot)
                points.append((ends[i], reduce))
                if self._waits:
                    points.append((ends[i], Await(slot)))
        return points

    def _gather(self, parameters: ParameterSet, chunk: int, unit: int) -> Join:
        size = parameters.units[chunk][unit] * self.job.parameter_bytes
        return Join(parameters.communicator, "all_gather", size, _unit_slot(chunk, unit))


class Zero3(StrategyBase):
    """Parameters, gradients and optimizer state are sharded (ZeRO stage 3, FSDP)."""

    zero_stage: ClassVar[int | None] = 3
    sharded: ClassVar[bool] = True
    gathers_per_layer: ClassVar[int] = 3  # in both passes, and of its gradients
    spans: ClassVar[tuple[str, ...]] = ("reduce_scatter", "all_gather")

    kind: Literal["zero3"] = "zero3"
    waits: bool = False
    """A rank waits for every gather and reduction before it goes on, as FSDP2 does on gloo: its
    calls return when the collective has ended. False: it computes meanwhile."""

    def attach(
        self, job: JobConfig, sets: Sequence[ParameterSet], units: Sequence[Sequence[Unit]]
    ) -> DataParallel:
        return FullySharded(job, sets, units, self.waits)

    def remarks(self, job: JobConfig, at: Loc) -> Remarks:
        yield from super().remarks(job, at)
        if job.mixture is not None:
            what = "experts with fully sharded parameters are not modelled"
            yield Remark((*at, "zero_stage"), what, "use zero_stage 0, 1 or 2", ((*at, "moe"),))


def _unit_slot(chunk: int, unit: int) -> str:
    return f"unit {chunk} {unit}"

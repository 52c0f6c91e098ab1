"""ZeRO-3, or FSDP: parameters are sharded, and gathered only while they are used.

The unit is a transformer block (embedding and head are units of their own). Each forward pass
gathers one unit after another, the next one while the present one computes, and frees them; each
backward pass gathers them again in reverse and reduce-scatters every unit's gradients. So a
micro-batch transfers its parameters twice and its gradients once, each (n - 1) / n of them: 1.5
times the volume of an all-reduce.

References: Rajbhandari et al., ZeRO, SC'20, section 7.3; Zhao et al., PyTorch FSDP, VLDB'23,
section 3.3 (prefetching, and one unit in flight at a time).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.data_parallel.base import (
    DataParallel,
    ParameterSet,
    Pass,
    StrategyBase,
    shares,
)
from prism_sim.training.layers import Unit
from prism_sim.training.program import Await, Join, Point


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
                        points.append((begin, Await(_slot(of.chunk, ahead))))
                points.append((begin, Await(_slot(of.chunk, unit))))
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
        return Join(parameters.communicator, "all_gather", size, _slot(chunk, unit))


class Zero3(StrategyBase):
    """Parameters, gradients and optimizer state are sharded (ZeRO stage 3, FSDP)."""

    zero_stage: ClassVar[int | None] = 3
    sharded: ClassVar[bool] = True
    gathers_per_layer: ClassVar[int] = 3  # in both passes, and of its gradients
    spans: ClassVar[tuple[str, ...]] = ("reduce_scatter", "all_gather")

    kind: Literal["zero3"] = "zero3"
    waits: bool = Field(
        default=False,
        description="A rank waits for every gather and reduction before it goes on, as FSDP2 does "
        "on gloo: its calls return when the collective has ended. False: it computes meanwhile.",
    )

    def attach(
        self, job: JobConfig, sets: Sequence[ParameterSet], units: Sequence[Sequence[Unit]]
    ) -> DataParallel:
        return FullySharded(job, sets, units, self.waits)

    def remarks(self, job: JobConfig, at: Loc) -> Remarks:
        yield from super().remarks(job, at)
        if job.mixture is not None:
            what = "experts with fully sharded parameters are not modelled"
            yield Remark((*at, "zero_stage"), what, "use zero_stage 0, 1 or 2", ((*at, "moe"),))


def _slot(chunk: int, unit: int) -> str:
    return f"unit {chunk} {unit}"

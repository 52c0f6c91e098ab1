"""DualPipe: micro-batches enter a pipeline at both of its ends.

Every part of the model is on two stages. Half of the micro-batches pass through stages 0, 1, ...,
the other half through the same parts on stages p - 1, p - 2, .... So stage i holds parts i and
p - 1 - i. In the steady state, a forward pass of one direction runs beside a backward pass of the
other: each computes while the other exchanges tokens with its experts, so the exchanges take no
time of their own. The bubble is (p/2 - 1) (F&B + B - 3 W), if F&B is the time of two such passes, B
that of a whole backward pass and W of its gradients of weights.

In DualPipeV, micro-batches enter at stage 0 only. Stage i holds parts i and 2 p - 1 - i, so they
pass through all stages and back. Each part is on one stage, and the order of passes is the same.

References: DeepSeek-AI, DeepSeek-V3 technical report, arXiv 2412.19437, section 3.2.1; the order of
passes in github.com/deepseek-ai/DualPipe.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar, Literal

from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.schedules.base import ScheduleBase
from prism_sim.training.schedules.work import BACKWARD, FORWARD, WEIGHTS, WHOLE, Place, Work

Turn = tuple[int, int]
"""A kind of pass, and its phase: 0 for the passes that begin first, 1 for the others."""
IDLE_WEIGHTS = (WEIGHTS, -1)
"""The oldest gradients of weights that are put off, of any phase."""


class DualPipe(ScheduleBase):
    """DualPipe: micro-batches from both ends; forward passes run beside backward passes."""

    splits_backward: ClassVar[bool] = True
    copies: ClassVar[int] = 2

    kind: Literal["dualpipe"] = "dualpipe"

    def stage_chunks(self, chunks: int) -> int:
        return 2

    def parts(self, stages: int, chunks: int) -> int:
        return stages

    def part_of(self, stage: int, chunk: int, stages: int) -> int:
        near = min(stage, stages - 1 - stage)
        return stages - 1 - near if chunk else near

    def holder(self, part: int, micro_batch: int, place: Place) -> tuple[int, int]:
        reverse = micro_batch >= place.micro_batches // 2
        return place.stages - 1 - part if reverse else part, int(2 * part >= place.stages)

    def alike(self, stage: int, stages: int) -> tuple[int, ...]:
        return tuple(sorted({stage, stages - 1 - stage}))

    def work(self, place: Place) -> list[Work]:
        """The work of a stage; the second half of the micro-batches enters at the last stage."""
        half, right = place.micro_batches // 2, 2 * place.stage >= place.stages
        depth = min(place.stage, place.stages - 1 - place.stage)
        order = dual_order(depth, place.stages // 2, half)
        return [w._replace(micro_batch=w.micro_batch + (w.chunk ^ right) * half) for w in order]

    def remarks(self, job: JobConfig, at: Loc) -> Remarks:
        yield from super().remarks(job, at)
        if job.pp % 2:
            what = f"dualpipe needs an even number of stages, and pp is {job.pp}"
            yield Remark((*at, "pp"), what, "use an even pp, or dualpipev", ((*at, "schedule"),))
        if job.micro_batches % 2 or job.micro_batches < 2 * job.pp:
            yield _too_few(job, at, "an even number of micro-batches, ")
        yield from not_beside(job, at)


class DualPipeV(ScheduleBase):
    """DualPipeV: through all stages and back; forward passes run beside backward passes."""

    splits_backward: ClassVar[bool] = True

    kind: Literal["dualpipev"] = "dualpipev"

    def stage_chunks(self, chunks: int) -> int:
        return 2

    def parts(self, stages: int, chunks: int) -> int:
        return 2 * stages

    def part_of(self, stage: int, chunk: int, stages: int) -> int:
        return 2 * stages - 1 - stage if chunk else stage

    def holder(self, part: int, micro_batch: int, place: Place) -> tuple[int, int]:
        back = part >= place.stages
        return (2 * place.stages - 1 - part, 1) if back else (part, 0)

    def work(self, place: Place) -> list[Work]:
        """The work of a stage in one step."""
        return dual_order(place.stage, place.stages, place.micro_batches)

    def remarks(self, job: JobConfig, at: Loc) -> Remarks:
        yield from super().remarks(job, at)
        if job.micro_batches < 2 * job.pp:
            yield _too_few(job, at, "")
        yield from not_beside(job, at)


def _too_few(job: JobConfig, at: Loc, even: str) -> Remark:
    what = f"{job.micro_batches} micro-batches do not fill a pipeline of {job.pp} stages twice"
    reads = ((*at, "pp"), (*at, "schedule"))
    return Remark((*at, "micro_batches"), what, f"use {even}{2 * job.pp} or more", reads)


def not_beside(job: JobConfig, at: Loc) -> Remarks:
    """Errors if passes of ``job`` cannot run beside each other."""
    if job.mixture is not None and job.mixture.imbalance and job.ep > 1:
        what = "unequal loads of experts are not modelled for passes beside each other"
        reads = ((*at, "schedule"), (*at, "moe", "imbalance"))
        yield Remark((*at, "moe"), what, "leave imbalance out, or use zb-h1", reads)
    if job.hybrid_shards is not None:
        what = "hybrid sharding is not modelled where stages hold the same layers"
        yield Remark((*at, "hybrid_shards"), what, "leave it out", ((*at, "schedule"),))


def dual_order(depth: int, half: int, micro_batches: int) -> list[Work]:
    """The passes of the stage that is ``depth`` stages from the end where phase 0 enters.

    ``half`` stages lie between the ends of a micro-batch's way and its middle, and each phase has
    ``micro_batches``. The chunk of a pass is its phase.

    >>> names = [("F", "B", "W", "A")[w.kind] + str(w.micro_batch) for w in dual_order(0, 1, 2)]
    >>> " ".join(names)
    'F0 F0 F1 A0 F1 A0 A1 B1 W1'
    """
    away = half - depth - 1
    steady = micro_batches - 2 * half + depth + 1
    turns: list[Turn] = [(FORWARD, 0)] * (2 * away)
    turns += [(FORWARD, 0), (FORWARD, 1)] * (depth + 1)
    turns += [(BACKWARD, 1), IDLE_WEIGHTS, (FORWARD, 1)] * away
    begins = len(turns)
    turns += [(FORWARD, 0), (WHOLE, 1), (FORWARD, 1), (WHOLE, 0)] * steady
    turns += [(WHOLE, 1), (FORWARD, 1), (WHOLE, 0)] * away
    ends = len(turns)
    kinds = [WHOLE] * (depth + 1) + [BACKWARD] * (depth + 1)
    turns += [(kind, (i + 1) % 2) for i, kind in enumerate(kinds)]
    turns += [IDLE_WEIGHTS, (BACKWARD, 0)] * away
    turns += [IDLE_WEIGHTS] * (depth + 1)
    apart = begins if not away and steady else -1  # the first pair of the middle stage
    return _numbered(turns, range(begins, ends), apart)


def _numbered(turns: list[Turn], pairs: range, apart: int) -> list[Work]:
    """``turns`` with their micro-batches; forwards in ``pairs`` run beside the backward after them.

    The one at ``apart`` does not.
    """
    done = {(direction, phase): 0 for direction in (FORWARD, BACKWARD) for phase in (0, 1)}
    put_off: deque[Work] = deque()
    order: list[Work] = []
    for i, (kind, phase) in enumerate(turns):
        if kind == WEIGHTS:
            order.append(put_off.popleft())
            continue
        direction = FORWARD if kind == FORWARD else BACKWARD
        beside = kind == FORWARD and i in pairs and i != apart
        work = Work(kind, done[direction, phase], phase, beside)
        done[direction, phase] += 1
        order.append(work)
        if kind == BACKWARD:
            put_off.append(work._replace(kind=WEIGHTS))
    return order

"""Interleaved 1F1B: each stage holds several chunks of layers, which shortens the bubble.

Micro-batches are processed in groups of p: a stage runs chunk 0 for the p micro-batches of the
group, then chunk 1 for the same, and so on; backwards take the chunks in reverse. Stage *i*
runs 2 (p - i - 1) + (v - 1) p forwards ahead. The bubble is (p - 1) / (v m) of the work, with
v times as many messages, and activations are sent from the last stage to the first.

Reference: Narayanan et al., Megatron-LM, SC'21, section 2.2.2 and figure 4.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.schedules.base import ScheduleBase
from prism_sim.training.schedules.work import BACKWARD, FORWARD, Place, Work


class Interleaved(ScheduleBase):
    """Interleaved 1F1B: each stage holds several chunks of layers."""

    chunked: ClassVar[bool] = True

    kind: Literal["interleaved"] = "interleaved"

    def work(self, place: Place) -> list[Work]:
        return interleaved(place)

    def remarks(self, job: JobConfig, at: Loc) -> Remarks:
        yield from super().remarks(job, at)
        if job.pp == 1 or job.micro_batches % job.pp:
            what = f"{job.micro_batches} micro-batches cannot be interleaved over {job.pp} stages"
            how = "use several stages, and a number of micro-batches that pp divides"
            reads = ((*at, "pp"), (*at, "micro_batches"))
            yield Remark((*at, "schedule"), what, how, reads)


def interleaved(place: Place) -> list[Work]:
    """The work of a stage in one step; the stages must divide the micro-batches.

    >>> [f"{'FB'[w.kind]}{w.micro_batch}.{w.chunk}" for w in interleaved(Place(1, 2, 2, 2))]
    ['F0.0', 'F1.0', 'F0.1', 'B0.1', 'F1.1', 'B1.1', 'B0.0', 'B1.0']
    """
    stage, stages, micro_batches, chunks = place
    total = micro_batches * chunks
    ahead = min(2 * (stages - stage - 1) + (chunks - 1) * stages, total)

    def piece(kind: int, turn: int) -> Work:
        group, within = divmod(turn, stages * chunks)
        chunk, offset = divmod(within, stages)
        return Work(kind, group * stages + offset, chunk if kind == FORWARD else chunks - 1 - chunk)

    order = [piece(FORWARD, turn) for turn in range(ahead)]
    for turn in range(ahead, total):
        order += [piece(FORWARD, turn), piece(BACKWARD, turn - ahead)]
    return order + [piece(BACKWARD, turn) for turn in range(total - ahead, total)]

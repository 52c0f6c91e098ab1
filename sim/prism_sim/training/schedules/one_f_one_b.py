"""1F1B, GPipe, and interleaved 1F1B: backwards in one piece.

1F1B: after a warm-up, every forward is followed by a backward.

Stage *i* of *p* runs p - i - 1 forwards ahead, so that it never holds more activations than
that. The bubble is the same as GPipe's, (p - 1) of (m + p - 1) slots; the order of messages
is not.

Reference: Narayanan et al., PipeDream, SOSP'19; Megatron-LM, SC'21 (non-interleaved 1F1B).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.schedules.base import ScheduleBase
from prism_sim.training.schedules.work import BACKWARD, FORWARD, Place, Work


class OneFOneB(ScheduleBase):
    """1F1B: after a warm-up, every forward is followed by a backward."""

    kind: Literal["1f1b"] = "1f1b"

    def work(self, place: Place) -> list[Work]:
        return one_f_one_b(place)


def one_f_one_b(place: Place) -> list[Work]:
    """The work of a stage in one step; stages are not cut into chunks.

    >>> ["FB"[work.kind] + str(work.micro_batch) for work in one_f_one_b(Place(0, 2, 3))]
    ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
    """
    micro_batches = place.micro_batches
    ahead = min(place.stages - place.stage - 1, micro_batches)
    order = [Work(FORWARD, mb) for mb in range(ahead)]
    for mb in range(ahead, micro_batches):
        order += [Work(FORWARD, mb), Work(BACKWARD, mb - ahead)]
    order += [Work(BACKWARD, mb) for mb in range(micro_batches - ahead, micro_batches)]
    return order


# GPipe: all forwards, then all backwards.
#
# The bubble is that of 1F1B, (p - 1) / m of the work; the price is memory for the activations
# of every micro-batch at the same time. Backwards run in the reverse order of the forwards, since
# the last micro-batch's activations are the newest.
#
# Reference: Huang et al., GPipe, NeurIPS'19, figure 2c.


class GPipe(ScheduleBase):
    """All forwards, then all backwards."""

    kind: Literal["gpipe"] = "gpipe"

    def work(self, place: Place) -> list[Work]:
        return gpipe(place)


def gpipe(place: Place) -> list[Work]:
    """The work of a stage in one step; the same for all stages.

    >>> ["FB"[work.kind] + str(work.micro_batch) for work in gpipe(Place(0, 2, 3))]
    ['F0', 'F1', 'F2', 'B2', 'B1', 'B0']
    """
    order = range(place.micro_batches)
    return [Work(FORWARD, mb) for mb in order] + [Work(BACKWARD, mb) for mb in reversed(order)]


# Interleaved 1F1B: each stage holds several chunks of layers, which shortens the bubble.
#
# Micro-batches are processed in groups of p: a stage runs chunk 0 for the p micro-batches of the
# group, then chunk 1 for the same, and so on; backwards take the chunks in reverse. Stage *i*
# runs 2 (p - i - 1) + (v - 1) p forwards ahead. The bubble is (p - 1) / (v m) of the work, with
# v times as many messages, and activations are sent from the last stage to the first.
#
# Reference: Narayanan et al., Megatron-LM, SC'21, section 2.2.2 and figure 4.


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

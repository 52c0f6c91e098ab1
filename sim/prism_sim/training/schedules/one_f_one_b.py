"""1F1B: after a warm-up, every forward is followed by a backward.

Stage *i* of *p* runs p - i - 1 forwards ahead, so that it never holds more activations than
that. The bubble is the same as GPipe's, (p - 1) of (m + p - 1) slots; the order of messages
is not.

Reference: Narayanan et al., PipeDream, SOSP'19; Megatron-LM, SC'21 (non-interleaved 1F1B).
"""

from __future__ import annotations

from typing import Literal

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

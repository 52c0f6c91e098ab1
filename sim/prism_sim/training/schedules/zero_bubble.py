"""Zero bubble, ZB-H1: weight gradients are delayed until a stage would have to wait.

The previous stage only needs the gradient of the input, so the backward
pass is split. The order of forwards and input gradients is that of 1F1B; stage *i* delays its
weight gradients by *i* micro-batches, and computes the remaining ones in the cool-down, where
1F1B waits. Peak memory is that of 1F1B. The bubble is (p - 1) (tf + tb - tw) instead of
(p - 1) (tf + tb + tw): a third of it if all three take equally long.

Reference: Qi, Wan, Huang and Lin, Zero bubble pipeline parallelism, ICLR'24, section 2 and
table 1.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.training.schedules.base import ScheduleBase
from prism_sim.training.schedules.one_f_one_b import one_f_one_b
from prism_sim.training.schedules.work import BACKWARD, WEIGHTS, Place, Work


class ZeroBubble(ScheduleBase):
    """Zero bubble, ZB-H1: gradients of the weights fill the waits."""

    splits_backward: ClassVar[bool] = True

    kind: Literal["zb-h1"] = "zb-h1"

    def work(self, place: Place) -> list[Work]:
        return zb_h1(place)


def zb_h1(place: Place) -> list[Work]:
    """The work of a stage in one step; stages are not cut into chunks.

    >>> ["FBW"[work.kind] + str(work.micro_batch) for work in zb_h1(Place(1, 2, 3))]
    ['F0', 'B0', 'F1', 'B1', 'W0', 'F2', 'B2', 'W1', 'W2']
    """
    order: list[Work] = []
    put_off: list[Work] = []
    forwards_left = place.micro_batches
    for work in one_f_one_b(place):
        order.append(work)
        forwards_left -= work.kind != BACKWARD
        if work.kind == BACKWARD:
            put_off.append(Work(WEIGHTS, work.micro_batch))
            if len(put_off) > place.stage or not forwards_left:
                order.append(put_off.pop(0))
    return order + put_off

"""GPipe: all forwards, then all backwards.

The bubble is that of 1F1B, (p - 1) / m of the work; the price is memory for the activations
of every micro-batch at the same time. Backwards run in the reverse order of the forwards, since
the last micro-batch's activations are the newest.

Reference: Huang et al., GPipe, NeurIPS'19, figure 2c.
"""

from __future__ import annotations

from typing import Literal

from prism_sim.training.schedules.base import ScheduleBase
from prism_sim.training.schedules.work import BACKWARD, FORWARD, Place, Work


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

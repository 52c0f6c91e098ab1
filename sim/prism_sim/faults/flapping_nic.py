"""A NIC whose link goes down and comes back: a loose cable, a dirty optic, a failing port."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.base import SLOW_ACCESS, STOPPED
from prism_sim.faults.places import OfNic
from prism_sim.faults.target import Target, Undo
from prism_sim.faults.timing import Pulsed


class FlappingNic(Pulsed, OfNic):
    """The link of one NIC is down for ``lasts_s`` in every ``every_s``, in both directions.

    Messages under way wait, and continue when the link is back. (A queue pair repeats for some
    seconds before it gives up: with NCCL's defaults, 7 retries of about 1 s each,
    NCCL_IB_TIMEOUT = 20. A link that stays down longer stops the job: see ``stopped_nic``.)
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS | {"nic_flap"}

    kind: Literal["flapping_nic"] = "flapping_nic"

    def magnitude(self, target: Target) -> float:
        return self.share

    def begin(self, target: Target) -> Undo:
        links = self.links(target)
        return self.pulsed(target.clock, lambda: target.links.slow(links, STOPPED))

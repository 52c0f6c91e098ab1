"""A NIC that stops without a word: nothing goes through it, and nothing is reported."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.base import SLOW_ACCESS, STOPPED
from prism_sim.faults.places import OfNic
from prism_sim.faults.stopping import Stopping
from prism_sim.faults.target import Target, Undo


class StoppedNic(Stopping, OfNic):
    """The link of one NIC carries nothing until the jobs that use it are restarted.

    A message that is under way has no record before it ends, after the restart, or before the
    recording ends. A ring that begins
    without the NIC is given up: its other ranks send until they lack what would come through it.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS | {"hang", "nic_down"}

    kind: Literal["stopped_nic"] = "stopped_nic"

    def begin(self, target: Target) -> Undo:
        for job in self.jobs_affected(target):
            target.compute.fail(job, None, self.noticed_ns, self.down_ns)
        return target.links.slow(self.links(target), STOPPED)

"""A switch with a wrong setting: it forwards below its rate in one direction."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import LinkFault
from prism_sim.faults.places import OfSwitch
from prism_sim.faults.target import LinkNumbers, Target
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class MisconfiguredSwitch(OfSwitch, LinkFault):
    """The traffic of a switch to the tier above (or below) has ``factor`` of its rate.

    A wrong queue weight, a policer, or flow control without buffers limits some ports of a switch,
    in one direction. The other ports, and the other direction, are healthy.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"slow_switch"})

    kind: Literal["misconfigured_switch"] = "misconfigured_switch"
    direction: Literal["up", "down"] = Field(
        default="up",
        description="Slow direction: to the tier above the switch, or to the tier below.",
    )

    def links(self, target: Target) -> LinkNumbers:
        return target.links.out_of(self.switch, upwards=self.direction == "up")

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        cluster = setting.cluster
        several = cluster.spines > 0 and cluster.leaves_per_plane > 1
        below = {"leaf": several, "spine": cluster.pods_per_plane > 1}
        if self.direction == "up" and not below.get(self.switch.rstrip("0123456789"), False):
            yield Remark(("direction",), f"{self.switch} sends nothing upwards", "use down")

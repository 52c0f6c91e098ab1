"""A switch that forwards below its rate: a failed line card, a hot chip, wrong buffers."""

from __future__ import annotations

from typing import Literal

from prism_sim.faults.base import LinkFault
from prism_sim.faults.places import OfSwitch
from prism_sim.faults.target import LinkNumbers, Target


class SlowSwitch(OfSwitch, LinkFault):
    """Every link of one switch runs at factor of its rate, in both directions."""

    kind: Literal["slow_switch"] = "slow_switch"

    def links(self, target: Target) -> LinkNumbers:
        return target.links.at(self.switch)

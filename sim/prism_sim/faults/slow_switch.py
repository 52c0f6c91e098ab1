"""A switch that forwards below its rate: a failed line card, a hot chip, wrong buffers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.cluster.topology import topology_of
from prism_sim.faults.base import Culprit, LinkFault, never_crossed, what_exists
from prism_sim.faults.target import LinkNumbers, Target
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.cluster import SHAPE
from prism_sim.scenario.setting import Setting


class SlowSwitch(LinkFault):
    """Every link of one switch runs at factor of its rate, in both directions."""

    kind: Literal["slow_switch"] = "slow_switch"
    switch: str = Field(description="The switch, such as leaf000 or spine01.")

    def culprit(self, target: Target) -> Culprit:
        return Culprit("switch", self.switch)

    def links(self, target: Target) -> LinkNumbers:
        return target.links.at(self.switch)

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        yield from never_crossed("switch", self.switch, setting)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        topology = topology_of(setting.cluster)
        if all(tier.node(self.switch) is None for tier in topology.switch_tiers):
            what = f"there is no switch {self.switch!r} in the cluster"
            how = what_exists(self.switch, topology.switch_tiers)
            yield Remark(("switch",), what, how, SHAPE)

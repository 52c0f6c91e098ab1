"""A switch that forwards below its rate: a failed line card, a hot chip, wrong buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from prism_sim.faults.base import Culprit, LinkFault
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.cluster import SHAPE
from prism_sim.scenario.words import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prism_sim.loading.scenario import Scenario
    from prism_sim.world import World


class SlowSwitch(LinkFault):
    """Every link of one switch runs at factor of its rate, in both directions."""

    kind: Literal["slow_switch"] = "slow_switch"
    switch: str = Field(description="The switch, such as leaf000 or spine01.")

    def culprit(self, world: World) -> Culprit:
        return Culprit("switch", self.switch)

    def links(self, world: World) -> NDArray[np.int64]:
        return world.layout.links_at(self.switch)

    def remarks(self, scenario: Scenario) -> Remarks:
        yield from super().remarks(scenario)
        switches = scenario.cluster.switches
        if self.switch not in switches:
            what = f"there is no switch {self.switch!r} in the cluster"
            yield Remark(("switch",), what, did_you_mean(self.switch, switches), SHAPE)

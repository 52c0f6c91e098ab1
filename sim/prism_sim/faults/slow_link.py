"""A cable that carries less than it should: bit errors, a lane lost, a wrong speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from prism_sim.faults.base import Culprit, LinkFault
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.cluster import SHAPE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prism_sim.loading.scenario import Scenario
    from prism_sim.world import World


class SlowLink(LinkFault):
    """The link between ``a`` and ``b`` runs at factor of its rate, in both directions.

    Where several parallel links join a leaf and a spine, all of them do.
    """

    kind: Literal["slow_link"] = "slow_link"
    a: str = Field(description="One end: a NIC's address (10.0.3.1) or a switch (leaf000).")
    b: str = Field(description="The other end: a switch (leaf000, spine01) or a NIC's address.")

    def culprit(self, world: World) -> Culprit:
        return Culprit("link", f"{self.a}|{self.b}")

    def links(self, world: World) -> NDArray[np.int64]:
        return world.layout.links_between(self.a, self.b)

    def remarks(self, scenario: Scenario) -> Remarks:
        yield from super().remarks(scenario)
        beyond_a = scenario.cluster.neighbours(self.a)
        beyond_b = scenario.cluster.neighbours(self.b)
        for key, end, beyond in (("a", self.a, beyond_a), ("b", self.b, beyond_b)):
            if not beyond:
                what = f"nothing in the cluster is called {end!r}"
                how = "name a switch (leaf000, spine00) or the address of a NIC (10.0.0.1)"
                yield Remark((key,), what, how, SHAPE)
        if beyond_a and beyond_b and self.b not in beyond_a and self.a not in beyond_b:
            what = f"no link joins {self.a} and {self.b}"
            how = f"from {self.a} links lead to {', '.join(beyond_a[:4])}"
            yield Remark(("b",), what, how, SHAPE)

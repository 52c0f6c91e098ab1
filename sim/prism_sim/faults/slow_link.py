"""A cable that carries less than it should: bit errors, a lane lost, a wrong speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from prism_sim.faults.base import Culprit, FaultBase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prism_sim.world import World


class SlowLink(FaultBase):
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

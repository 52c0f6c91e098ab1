"""Uplinks of a leaf that are dead: a failed line card, a cut bundle of fibres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from prism_sim.faults.base import Culprit, FaultBase
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.cluster import SHAPE
from prism_sim.scenario.words import did_you_mean

if TYPE_CHECKING:
    from prism_sim.loading.scenario import Scenario
    from prism_sim.world import World


class FailedUplinks(FaultBase):
    """Some uplinks of a leaf are gone, and its connections share those that are left.

    The leaf, and the spines on their way back to it, hash every connection again, over what is
    left. With f connections at once over u uplinks of rate C, each has u C / f at most, and one
    that hashing put on an uplink with m of them C / m. What is under way when the
    uplinks fail ends where it is: a message lasts a fraction of a second.
    """

    kind: Literal["failed_uplinks"] = "failed_uplinks"
    factor: float = Field(
        default=1.0, ge=1, le=1, description="Speed of the uplinks that are left: as before."
    )
    leaf: str = Field(description="The leaf switch, such as leaf000.")
    failed: int = Field(
        ge=1,
        le=1_000_000,
        description="How many of its uplinks fail: those with the lowest numbers (uplink i leads "
        "to spine i modulo the number of spines). At least one must be left.",
    )

    @property
    def changes_nothing(self) -> bool:
        return False

    def culprit(self, world: World) -> Culprit:
        return Culprit("switch", self.leaf)

    def begin(self, world: World) -> None:
        world.fail_uplinks(self._leaf(world), self._gone)

    def end(self, world: World) -> None:
        world.mend_uplinks(self._leaf(world), self._gone)

    def jobs_hit(self, world: World) -> list[str]:
        import numpy as np

        layout, leaf = world.layout, self._leaf(world)
        uplinks = range(layout.cluster.uplinks)
        ways = (layout.up, layout.down)
        return world.jobs_across(np.array([way(leaf, up) for way in ways for up in uplinks]))

    @property
    def _gone(self) -> Sequence[int]:
        return range(self.failed)

    def _leaf(self, world: World) -> int:
        return world.layout.leaves.index(self.leaf)

    def remarks(self, scenario: Scenario) -> Remarks:
        yield from super().remarks(scenario)
        cluster = scenario.cluster
        leaves = cluster.switches[: cluster.leaves]
        if self.leaf not in leaves:
            what = f"there is no leaf {self.leaf!r} in the cluster"
            yield Remark(("leaf",), what, did_you_mean(self.leaf, leaves), SHAPE)
        if self.failed >= cluster.uplinks:
            what = f"{self.failed} uplinks fail, and a leaf has {cluster.uplinks}"
            where = (("cluster", "fabric", "uplinks"),)
            yield Remark(("failed",), what, "leave at least one", where)

"""ECMP polarisation: a leaf hashes all connections onto a few of its uplinks."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.faults.places import OfLeaf
from prism_sim.faults.target import Target, Undo
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class PolarisedHashing(OfLeaf):
    """Connections that leave the leaf use ``used`` of its uplinks only; the others are idle.

    Where two tiers hash with the same function, the second one sees only connections that the
    first one sent its way, and sends all of them the same way again. All links are healthy.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"ecmp", "congestion", "slow_switch"})

    kind: Literal["polarised_hashing"] = "polarised_hashing"
    used: int = Field(
        default=1, ge=1, le=1_000_000, description="Uplinks in use: those with the lowest numbers."
    )

    def magnitude(self, target: Target) -> float:
        return 1 - 2 * self.used / len(target.links.uplinks_of(self.leaf))  # two directions each

    def begin(self, target: Target) -> Undo:
        uplinks = len(target.links.uplinks_of(self.leaf)) // 2
        return target.links.avoid_uplinks(self.leaf, range(self.used, uplinks))

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        uplinks = setting.cluster.uplinks
        if self.used >= uplinks:
            what = f"{self.used} uplinks are used, and a leaf has only {uplinks}"
            where = (("cluster", "fabric", "uplinks"),)
            yield Remark(("used",), what, "use fewer than all", where)

"""Uneven spraying: a leaf sends more over some of its uplinks than over others."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.faults.places import OfLeaf
from prism_sim.faults.target import Target, Undo
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class UnevenSpraying(OfLeaf):
    """The leaf gives the first uplinks ``times`` their weight; all links are healthy.

    A wrong table of weights, or entropy values of which a hash makes too few, load some paths more.
    All messages that leave the leaf wait for their packets on these.
    """

    causes: ClassVar[frozenset[str]] = frozenset(
        {"ecmp", "congestion", "slow_switch", "polarised_hashing"}
    )

    kind: Literal["uneven_spraying"] = "uneven_spraying"
    times: float = Field(default=2.0, gt=1, le=1e6, description="Weight of these uplinks.")
    preferred: int = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="Uplinks with this weight: those with the lowest numbers.",
    )

    def magnitude(self, target: Target) -> float:
        uplinks = len(target.links.uplinks_of(self.leaf)) // 2  # two directions each
        even = 1 / uplinks
        return 1 - even / (self.times / (self.times * self.preferred + uplinks - self.preferred))

    def begin(self, target: Target) -> Undo:
        return target.links.prefer_uplinks(self.leaf, range(self.preferred), self.times)

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        routing = setting.cluster.fabric.routing
        if not routing.splits:
            what = f"{routing.kind} sends no message over several uplinks"
            where = (("cluster", "fabric", "routing"),)
            yield Remark(("kind",), what, "let routing be spray", where)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        uplinks = setting.cluster.uplinks
        if self.preferred >= uplinks:
            what = f"{self.preferred} uplinks are preferred, and a leaf has only {uplinks}"
            where = (("cluster", "fabric", "uplinks"),)
            yield Remark(("preferred",), what, "use fewer than all", where)

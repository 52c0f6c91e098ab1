"""Adaptive routing: switches send where least waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.scenario.routing.base import Choice, Floats, RoutingBase


class Adaptive(RoutingBase):
    """The least loaded of the equal paths, for each message or for each burst of packets.

    A message of many bursts that each take the shortest queue loads all paths, in proportion to
    their rates: a slow link gets less. Loads are those of whole paths: switches tell each other.

    References: NVIDIA Spectrum-X (RoCE adaptive routing for each packet, by the load of egress
    ports) and InfiniBand's adaptive routing, with its notifications of remote congestion.
    """

    follows_rates: ClassVar[bool] = True

    kind: Literal["adaptive"] = "adaptive"
    per: Literal["message", "burst"] = Field(
        default="burst",
        description="message: each message takes the path that is least loaded when it begins. "
        "burst: a message takes all paths, in proportion to their present rates.",
    )

    @property
    def choice(self) -> Choice | None:
        return Choice(0, by_load=True) if self.per == "message" else None

    def shares(self, rates: Floats, uplinks: Sequence[int]) -> Floats | None:
        if self.per == "message":
            return None
        share: Floats = rates / rates.sum()
        return share

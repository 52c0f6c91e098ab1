"""Flowlets: after a silence, a connection may take another path, and no packet can overtake."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.scenario.routing.base import Choice, RoutingBase


class Flowlet(RoutingBase):
    """A message that begins after ``gap_us`` of silence of its connection takes a new path.

    References: Vanini et al., LetFlow, NSDI'17 (random paths); Alizadeh et al., CONGA, SIGCOMM'14
    (least loaded paths). Both use gaps of a few hundred microseconds.
    """

    kind: Literal["flowlet"] = "flowlet"
    gap_us: float = Field(
        default=500.0,
        ge=0,
        le=1e9,
        description="Silence of a connection after which a switch chooses again [us]. Default: "
        "500, as in LetFlow and CONGA.",
    )
    choose: Literal["random", "least_loaded"] = Field(
        default="random",
        description="The new path: random (LetFlow), or least_loaded (CONGA).",
    )

    @property
    def choice(self) -> Choice | None:
        return Choice(round(self.gap_us * 1e3), self.choose == "least_loaded")

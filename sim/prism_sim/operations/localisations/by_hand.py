"""People search."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.localisations.base import LocalisationBase


class ByHand(LocalisationBase):
    """Up to 15 minutes in ByteRobust (arXiv 2509.16293)."""

    kind: Literal["by_hand"] = "by_hand"
    takes_s: float = Field(default=900, ge=0, description="time of an attempt [s]")
    by_hand: bool = Field(default=True, description="whether a person does it")

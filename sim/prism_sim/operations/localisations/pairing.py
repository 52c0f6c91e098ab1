"""Two rounds of all-gathers between pairs of servers, as Acme has (NSDI'24)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.localisations.base import LocalisationBase


class Pairing(LocalisationBase):
    """Two rounds of all-gathers between pairs of servers, as Acme has (NSDI'24)."""

    kind: Literal["pairing"] = "pairing"
    takes_s: float = Field(default=120, ge=0, description="time of an attempt [s]")
    by_hand: bool = Field(default=False, description="whether a person does it")

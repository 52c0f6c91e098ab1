"""The contract of a policy of localisation."""

from __future__ import annotations

from pydantic import Field

from prism_sim.scenario.base import Closed


class LocalisationBase(Closed):
    """Names the server to replace; if it is the wrong one, the failure returns at once."""

    takes_s: float = Field(ge=0, description="time of an attempt [s]")
    right: float = Field(default=1, gt=0, le=1, description="probability of the right server")
    by_hand: bool = Field(default=False, description="whether a person does it")

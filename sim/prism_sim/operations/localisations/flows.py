"""The culprit that flow records show; it is known with the alarm."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.localisations.base import LocalisationBase


class Flows(LocalisationBase):
    """The culprit that flow records show; it is known with the alarm."""

    kind: Literal["flows"] = "flows"
    takes_s: float = Field(default=0, ge=0, description="time of an attempt [s]")
    by_hand: bool = Field(default=False, description="whether a person does it")

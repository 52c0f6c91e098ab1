"""The culprit that flow records show; it is known with the alarm."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.causes import Symptom
from prism_sim.operations.localisations.base import LocalisationBase


class Flows(LocalisationBase):
    """A culprit of a diagnosis of flow records."""

    kind: Literal["flows"] = "flows"
    takes_s: float = Field(default=0, ge=0, description="time of an attempt [s]")
    sees: tuple[Symptom, ...] = Field(
        default=("hang", "slow"), description="symptoms that it can localise"
    )

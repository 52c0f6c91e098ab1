"""The stacks of all ranks are collected and compared."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.causes import Symptom
from prism_sim.operations.localisations.base import LocalisationBase


class Stacks(LocalisationBase):
    """ByteRobust's aggregation (arXiv 2509.16293): ranks whose stack differs are to blame.

    A process that has ended has no stack, so errors are not localised.
    """

    kind: Literal["stacks"] = "stacks"
    takes_s: float = Field(default=60, ge=0, description="time of an attempt [s]")
    sees: tuple[Symptom, ...] = Field(
        default=("hang", "slow"), description="symptoms that it can localise"
    )

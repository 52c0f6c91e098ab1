"""The first node to fail, as the logs of a job show it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.causes import Symptom
from prism_sim.operations.localisations.base import LocalisationBase


class Logs(LocalisationBase):
    """A culprit of a diagnosis of logs. A job that is only slow writes no error."""

    kind: Literal["logs"] = "logs"
    takes_s: float = Field(default=10, ge=0, description="time of an attempt [s]")
    sees: tuple[Symptom, ...] = Field(
        default=("error", "hang"), description="symptoms that it can localise"
    )

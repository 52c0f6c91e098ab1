"""Servers are inspected at short intervals."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.detections.base import Detected, DetectionBase
from prism_sim.operations.failure import Failure


class Inspection(DetectionBase):
    """Finds causes on servers; ByteRobust's Table 3 has 2 to 60 s."""

    kind: Literal["inspection"] = "inspection"
    every_s: float = Field(default=30, gt=0, description="time until an inspection finds it [s]")
    coverage: float = Field(default=1, ge=0, le=1, description="part of errors that it sees")

    def detect(self, failure: Failure) -> Detected | None:
        visible = failure.cause.symptom == "error" and failure.cause.on_server
        return Detected(self.every_s) if visible and failure.found < self.coverage else None

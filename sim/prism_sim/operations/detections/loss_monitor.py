"""A program watches the loss."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.detections.base import Detected, DetectionBase
from prism_sim.operations.failure import Failure


class LossMonitor(DetectionBase):
    """Detects spikes of the loss, and values that are not numbers."""

    kind: Literal["loss_monitor"] = "loss_monitor"
    after_s: float = Field(default=60, gt=0, description="time until a spike is reported [s]")

    def detect(self, failure: Failure) -> Detected | None:
        return Detected(self.after_s) if failure.cause.symptom == "spike" else None
